"""Decisions about the run as a whole: its start, its checkpoints, its evaluations and its end."""

from dataclasses import replace
from typing import Final

from driftline.broker.port import MAX_RECORD_BYTES
from driftline.consumers.coordinator.evidence import Evidence
from driftline.ledger.contradictions import proposal_problems
from driftline.ledger.event_check import shorten
from driftline.ledger.run_state import RunState
from driftline.schemas.codec import encode
from driftline.schemas.model.layout import layout_from_json
from driftline.schemas.records import Checkpoint, Evaluation, RunEnd, RunStart, StateDigest
from driftline.schemas.run.config import RunConfig
from driftline.schemas.run.config_json import run_config_from_json

STOP_PATIENCE: Final = 4
"""How long a run that is to be stopped waits for the digests of its head: so many times the silence after which a
member counts as gone."""


def run_start(state: RunState, evidence: Evidence) -> RunStart | None:
    """Make the first complete proposal the run."""
    for proposal in evidence.proposals.values():
        if evidence.is_complete(proposal) and not proposal_problems(proposal):
            config = run_config_from_json(proposal.config)
            return RunStart(
                term=state.chain.term,
                parent=state.chain.head,
                run=proposal.run,
                name=config.name,
                config=proposal.config,
                layout=proposal.layout,
                layout_fingerprint=layout_from_json(proposal.layout).fingerprint(),
                partitions=config.partitions,
                shards=proposal.shards,
                proposer=proposal.worker,
            )
    return None


def checkpoint(state: RunState, evidence: Evidence, _ticks: int) -> Checkpoint | None:
    """Make the newest snapshots official that are durable in every partition."""
    durable = evidence.durable()
    if durable is None:
        return None
    version, reports = durable
    places = sorted((place for report in reports for place in report.places), key=lambda one: (one.shard, one.tensor))
    dumped = state.dumps.get(version)
    record = Checkpoint(
        term=state.chain.term,
        parent=state.chain.head,
        version=version,
        floors=_floors(state, [report.floor for report in reports]),
        places=tuple(places),
        state=() if dumped is None else (dumped,),
    )
    if dumped is not None and len(encode(record)) <= MAX_RECORD_BYTES:
        return record
    # Servers can rebuild shards from it; newcomers start from an earlier one.
    evidence.counters["checkpoints_too_old" if dumped is None else "checkpoints_too_large"] += 1
    return replace(record, state=())


def _floors(state: RunState, reported: list[int]) -> tuple[int, ...]:
    """Return the first delta of each partition that is needed; never one that an earlier checkpoint gave up.

    A server may report less than another did before: it holds a copy that is not needed, or has read less.
    """
    before = state.checkpoint
    if before is None:
        return tuple(reported)
    return tuple(max(pair) for pair in zip(reported, before.floors, strict=True))


def failure(state: RunState, evidence: Evidence, _ticks: int) -> RunEnd | None:
    """End the run because a server cannot go on with it."""
    if not evidence.failure:
        return None
    return _run_end(state, evidence, reason="failed", failure=evidence.failure)


def evaluation(state: RunState, evidence: Evidence, _ticks: int) -> Evaluation | None:
    """Record what an evaluator measured."""
    report = evidence.measured()
    if report is None:
        return None
    return Evaluation(
        term=state.chain.term,
        parent=state.chain.head,
        version=report.version,
        evaluator=report.evaluator,
        metrics=report.metrics,
    )


def goal(state: RunState, evidence: Evidence, ticks: int) -> RunEnd | None:
    """End the run at its last version, or because a command asked for it."""
    if evidence.stop is None and not state.is_finished:
        return None
    if _is_worth_waiting(evidence, state.config, ticks) and not _is_published(state, evidence, state.version):
        return None
    if state.version not in state.evaluations and _live_evaluators(state, evidence, ticks):
        return None
    if evidence.stop is not None and not state.is_finished:
        reason = shorten(f"stopped by {evidence.stop.sender}: {evidence.stop.reason}")
        return _run_end(state, evidence, reason=reason, failure="")
    return _run_end(state, evidence, reason=f"reached version {state.version}", failure="")


def _is_published(state: RunState, evidence: Evidence, version: int) -> bool:
    """Whether servers have reported the digests of a version, and so have published it."""
    return version in state.states or version in evidence.states


def _is_worth_waiting(evidence: Evidence, config: RunConfig, ticks: int) -> bool:
    """Whether the end can wait for the digests of the head: for a while only if the run is stopped.

    There may be no server left to report them.
    """
    return evidence.stop is None or ticks - evidence.stop_tick < STOP_PATIENCE * config.gone_after_ticks


def _live_evaluators(state: RunState, evidence: Evidence, ticks: int) -> bool:
    patience = state.config.gone_after_ticks
    return any(ticks - evidence.last_seen.get(member, 0) < patience for member in evidence.evaluators)


def _run_end(state: RunState, evidence: Evidence, *, reason: str, failure: str) -> RunEnd:
    return RunEnd(
        term=state.chain.term,
        parent=state.chain.head,
        version=state.version,
        reason=reason,
        failure=failure,
        states=new_states(state, evidence),
    )


def new_states(state: RunState, evidence: Evidence) -> tuple[StateDigest, ...]:
    """Return the digests that became known and that the ledger does not hold yet."""
    return tuple(evidence.states[version] for version in sorted(evidence.states) if version not in state.states)
