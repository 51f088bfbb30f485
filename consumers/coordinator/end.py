"""The last decisions: what was measured, and when a run is over."""

from driftline.consumers.coordinator.basis import new_states
from driftline.consumers.coordinator.evidence import Evidence
from driftline.ledger.event_check import shorten
from driftline.ledger.run_state import RunState
from driftline.schemas.records import Evaluation, RunEnd
from driftline.schemas.run.config import RunConfig

STOP_PATIENCE = 4
"""A run that is to be stopped ends without the digests of its head after so many times the ticks after which a member
is gone."""


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
    """End the run at its last version, or because somebody asked for it."""
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
    """Whether the end can wait for the digests of the head: for ever, but of a run that is stopped only for a while.

    Nobody may be left who could report them.
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
