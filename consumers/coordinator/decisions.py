"""What the coordinator decides next: a pure function of the ledger's fold and of the evidence.

One record is one decision. The order of `DECISIONS` is the order of precedence.
"""

from collections.abc import Callable

from driftline.consumers.coordinator.evidence import Evidence
from driftline.consumers.coordinator.run_decisions import checkpoint, evaluation, failure, goal, new_states, run_start
from driftline.ledger import policy
from driftline.ledger.rejection_reasons import DISCARDED, reason_word
from driftline.ledger.run_state import Group, RunState
from driftline.rules import RULES, with_defaults
from driftline.schemas.records import (
    Contribution,
    GroupId,
    Join,
    Lease,
    LedgerRecord,
    Membership,
    Publish,
    Rejection,
    Removal,
    Skip,
    Use,
    Version,
)
from driftline.schemas.records.sample_range import Samples, count
from driftline.schemas.run.config import RunConfig

HEAD_AHEAD = 8
"""Versions by which the head may be ahead of the slowest server."""


def decide(state: RunState, evidence: Evidence, ticks_read: int) -> LedgerRecord | None:
    """Return the next ledger record, or None when there is nothing to decide."""
    if state.ended is not None:
        return None
    if not state.has_begun:
        return run_start(state, evidence)
    for decision in DECISIONS:
        record = decision(state, evidence, ticks_read)
        if record is not None:
            return record
    return None


# -- decisions on a running run --------------------------------------------------------------------------------------


def _membership(state: RunState, evidence: Evidence, ticks: int) -> Membership | None:
    if evidence.members_are_settled:
        return None
    removals = _removals(state, evidence, ticks)
    gone = {removal.group for removal in removals}
    joins = _joins(state, evidence, ticks, gone)
    if not removals and not joins:
        evidence.members_are_settled = True
        return None
    remaining = [group for group in state.groups if group not in gone]
    return Membership(
        term=state.chain.term,
        parent=state.chain.head,
        joins=tuple(joins),
        removals=tuple(removals),
        raised=0
        if not removals
        else policy.raise_after_removal(
            state.version,
            [evidence.pace(group) for group in remaining],
            pending=any(evidence.pending(group) for group in remaining),
        ),
    )


def _removals(state: RunState, evidence: Evidence, ticks: int) -> list[Removal]:
    return [
        Removal(group=group.id, worker=group.worker, reason=reason)
        for group in state.groups.values()
        if (reason := _removal_reason(group, state, evidence, ticks))
    ]


def _removal_reason(group: Group, state: RunState, evidence: Evidence, ticks: int) -> str:
    member = (group.worker, group.incarnation)
    if member in evidence.leaving:
        return evidence.leaving[member].word
    patience = state.config.gone_after_ticks
    newer = evidence.successor(member, ticks, patience)
    if newer is not None:
        return f"replaced by incarnation {newer[1].hex()[:8]} of the same name"
    silent = ticks - evidence.last_seen.get(member, 0)
    if silent >= patience:
        return f"no heartbeat in {silent} ticks"
    return ""


def _joins(state: RunState, evidence: Evidence, ticks: int, gone: set[GroupId]) -> list[Join]:
    members = {group.worker for group in state.groups.values() if group.id not in gone}
    candidates = evidence.candidates(ticks, state.config.gone_after_ticks)
    ready = [event for name, event in sorted(candidates.items()) if name not in members]
    if not state.first_names and len(ready) < state.config.workers:
        return []
    return [Join(worker=event.worker, incarnation=event.incarnation) for event in ready]


def _lease(state: RunState, _evidence: Evidence, _ticks: int) -> Lease | None:
    """Lease samples as the ledger alone says, before any version: so it says the same in the same run made again."""
    grants = () if state.is_finished else state.leases.due()
    return Lease(term=state.chain.term, parent=state.chain.head, grants=grants) if grants else None


def _rejection(state: RunState, evidence: Evidence, _ticks: int) -> Rejection | None:
    for group in evidence.in_question():
        clock = state.groups[group].settled_clock + 1
        reason = _unusable(state, evidence, group, clock)
        if reason:
            return Rejection(
                term=state.chain.term,
                parent=state.chain.head,
                group=group,
                clock=clock,
                reason=reason,
                burned=_discarded(state, evidence, group, clock, reason),
            )
        evidence.is_sound(group)
    return None


def _discarded(state: RunState, evidence: Evidence, group: GroupId, clock: int, reason: str) -> Samples:
    """Return the samples of a rejected clock that would spoil another gradient, too; others stay with the group."""
    offer = evidence.offers.get((group, clock))
    if offer is None or reason_word(reason) not in DISCARDED or state.leases.problem(group, offer.samples):
        return ()
    return offer.samples


def _unusable(state: RunState, evidence: Evidence, group_id: GroupId, clock: int) -> str:
    """Why this clock will be rejected once those before it are settled, or nothing."""
    return (
        evidence.refusal((group_id, clock))
        or _stale(state, evidence, group_id, clock)
        or evidence.incomplete((group_id, clock), 2 * state.config.gone_after_ticks)
    )


def _stale(state: RunState, evidence: Evidence, group_id: GroupId, clock: int) -> str:
    offer = evidence.offers.get((group_id, clock))
    if not isinstance(offer, Contribution):
        return ""
    staleness, bounds = state.version - offer.base_version, state.config.consistency
    if policy.too_stale(staleness, bounds):
        return f"stale by {staleness} versions, at most {bounds.tolerated} are allowed"
    return ""


def _version(state: RunState, evidence: Evidence, _ticks: int) -> Version | None:
    config = state.config
    if evidence.stop is not None:
        return None  # the head is the last version
    if state.is_finished or evidence.paces_are_settled or not _servers_keep_up(state, evidence):
        return None
    if not _closes(state, evidence):
        evidence.paces_are_settled = True
        return None
    ordered = sorted(state.groups.values(), key=lambda group: group.worker)
    taken = [(group.id, clock) for group in ordered for clock in evidence.pending(group.id)]
    version = state.version + 1
    uses, rho = _uses(state, evidence, taken)
    return Version(
        term=state.chain.term,
        parent=state.chain.head,
        version=version,
        uses=uses,
        learning_rates=_learning_rates(config, version, uses),
        rho=rho,
        positions=_positions(config, evidence, taken),
        publish=_is_publish_point(state, evidence, version),
        states=new_states(state, evidence),
        buffers_of=policy.buffers_of(uses) if state.layout.has_buffers else -1,
    )


def _learning_rates(config: RunConfig, version: int, uses: tuple[Use, ...]) -> tuple[float, ...]:
    if config.schedule.is_scripts:
        return policy.mean_rates(uses, len(config.rule.groups))
    factor = config.schedule.factor(version, config.horizon)
    return tuple(factor * group["lr"] for group in with_defaults(config.rule).groups)


def _closes(state: RunState, evidence: Evidence) -> bool:
    config = state.config
    if config.consistency.closes_by_clock:
        return policy.clock_closes(state.version, [evidence.pace(group) for group in state.groups], config.consistency)
    pending = [len(evidence.pending(group)) for group in state.groups]
    at_bound = (_is_at_bound(state, evidence, group) for group in state.groups.values())
    return policy.count_closes(pending, at_bound, config.consistency)


def _is_at_bound(state: RunState, evidence: Evidence, live: Group) -> bool:
    """Whether a group cannot start another clock before the next version.

    A clock that will be rejected counts like a whole one: behind a pending one it cannot be settled before the next
    version either, and until then its worker counts it as unsettled, and its samples as read.
    """
    config, group = state.config, live.id
    clocks: list[int] = []
    clock = live.settled_clock + 1
    while evidence.is_whole((group, clock)) or _unusable(state, evidence, group, clock):
        clocks.append(clock)
        clock += 1
    newest = [clock for clock in clocks if evidence.offers[group, clock].base_version >= state.last_publish]
    if state.leases.is_on and not state.leases.is_due(group) and not _unread(state, evidence, group, clocks):
        return True
    return not policy.count_starts(
        since_base=len(newest), unsettled=len(clocks), bounds=config.consistency, k=config.max_unsettled
    )


def _unread(state: RunState, evidence: Evidence, group: GroupId, clocks: list[int]) -> int:
    """Return how many samples a group holds that none of these clocks has read."""
    read = sum(count(evidence.offers[group, clock].samples) for clock in clocks)
    return count(state.leases.held(group)) - read


def _is_publish_point(state: RunState, evidence: Evidence, version: int) -> bool:
    """One publish point is under way at a time, but the clock rule must not starve, and the last version is one."""
    config = state.config
    waited_for = config.consistency.closes_by_clock and version - state.last_publish >= max(
        config.consistency.staleness, 1
    )
    return config.is_last(version) or waited_for or not _is_publishing(state, evidence)


def _is_publishing(state: RunState, evidence: Evidence) -> bool:
    """Whether servers have yet to report the digests of the last publish point.

    Once a checkpoint is further on there may be no server left that can: new owners start there.
    """
    overtaken = state.checkpoint is not None and state.last_publish < state.checkpoint.version
    return not overtaken and state.last_publish not in state.states and state.last_publish not in evidence.states


def _publish(state: RunState, evidence: Evidence, _ticks: int) -> Publish | None:
    """Publish the head as soon as the last publish point is through, if the head is none itself.

    Before rejections: while workers know nothing newer, all that they send may be too stale, without end.
    """
    if state.last_publish >= state.version or _is_publishing(state, evidence):
        return None
    return Publish(
        term=state.chain.term,
        parent=state.chain.head,
        version=state.version,
        states=new_states(state, evidence),
    )


def _servers_keep_up(state: RunState, evidence: Evidence) -> bool:
    applied = [evidence.applied.get(partition, 0) for partition in range(state.config.partitions)]
    return state.version - min(applied) < HEAD_AHEAD


def _uses(state: RunState, evidence: Evidence, taken: list[tuple[GroupId, int]]) -> tuple[tuple[Use, ...], float]:
    config = state.config
    offers = [evidence.offers[clock] for clock in taken]
    weighing = [offer.weight if isinstance(offer, Contribution) else 0.0 for offer in offers]
    factors = [config.consistency.factor(state.version - offer.base_version) for offer in offers]
    shares, rho = policy.coefficients(weighing, factors, damps_rates=RULES[config.rule.name].damps_rates)
    return tuple(_use(state, offer, share) for offer, share in zip(offers, shares, strict=True)), rho


def _use(state: RunState, offer: Contribution | Skip, share: float) -> Use:
    used = isinstance(offer, Contribution) and offer.weight > 0
    brings_rates = used and state.config.schedule.is_scripts
    return Use(
        group=offer.group,
        clock=offer.clock,
        kind="delta" if used else "skip",
        base_version=offer.base_version,
        staleness=state.version - offer.base_version,
        weight=offer.weight if isinstance(offer, Contribution) else 0.0,
        loss=offer.loss if isinstance(offer, Contribution) else 0.0,
        cursor=offer.cursor,
        coefficient=share if used else 0.0,
        root=offer.root if isinstance(offer, Contribution) else bytes(32),
        learning_rates=offer.learning_rates if isinstance(offer, Contribution) and brings_rates else (),
        samples=offer.samples,
    )


def _positions(config: RunConfig, evidence: Evidence, taken: list[tuple[GroupId, int]]) -> tuple[int, ...]:
    positions = [-1] * config.partitions
    for clock in taken:
        for receipt in evidence.receipts.get(clock, {}).values():
            positions[receipt.partition] = max(positions[receipt.partition], receipt.offset + 1)
    return tuple(positions)


Decision = Callable[[RunState, Evidence, int], LedgerRecord | None]
DECISIONS: tuple[Decision, ...] = (
    failure,
    _membership,
    _lease,
    _publish,
    _rejection,
    checkpoint,
    _version,
    evaluation,
    goal,
)
