"""Whom the workers of a run wait for, by the ledger and their newest heartbeats. For people only."""

from collections.abc import Mapping

from driftline.ledger import policy
from driftline.ledger.run_state import Group, RunState
from driftline.observe.run.recent_events import Member, RecentEvents

SERVERS = "servers"
"""Stands for all servers: receipts, a decision or parameters are missing, and no worker's delta."""


def waited_for(state: RunState, events: RecentEvents, version_ms: int) -> Mapping[str, tuple[str, ...] | None]:
    """Return whom each live worker waits for: names of workers, or `SERVERS`; empty while it computes.

    None means not known: the worker's newest heartbeat is older than the newest version.

    Args:
        state: fold of the ledger.
        events: the newest ones.
        version_ms: append time of the newest version, milliseconds since the epoch.
    """
    if not state.has_begun or state.ended is not None:
        return {}
    members = {
        group.worker: events.members.get(("worker", group.worker, group.incarnation)) for group in state.groups.values()
    }
    paces = {
        group.worker: group.settled_pace + _unsettled(group, members[group.worker]) for group in state.groups.values()
    }
    found: dict[str, tuple[str, ...] | None] = {}
    for group in state.groups.values():
        member = members[group.worker]
        if member is None or member.left or member.seen_ms < version_ms:
            found[group.worker] = None
        elif _has_no_samples(state, group):
            found[group.worker] = _holders(state) or (SERVERS,)
        elif _may_start(state, group, member) or _is_over(state, paces[group.worker]):
            found[group.worker] = ()
        else:
            found[group.worker] = _slower(paces, group.worker)
    return found


def _unsettled(group: Group, member: Member | None) -> int:
    return 0 if member is None else max(0, member.clock - group.settled_clock)


def _is_over(state: RunState, pace: int) -> bool:
    """Whether a worker of this pace has nothing left to do."""
    by_pace = state.config.consistency.closes_by_clock and state.config.is_last(pace)
    return by_pace or state.is_finished


def _has_no_samples(state: RunState, group: Group) -> bool:
    """Whether a worker waits for samples that others hold; by the clock rule it skips instead."""
    leases, by_clock = state.leases, state.config.consistency.closes_by_clock
    return leases.is_on and not by_clock and not leases.is_due(group.id) and not leases.held(group.id)


def _holders(state: RunState) -> tuple[str, ...]:
    return tuple(sorted(group.worker for group in state.groups.values() if state.leases.held(group.id)))


def _slower(paces: Mapping[str, int], worker: str) -> tuple[str, ...]:
    slower = sorted(name for name, pace in paces.items() if pace < paces[worker])
    return tuple(slower) or (SERVERS,)


def _may_start(state: RunState, group: Group, member: Member) -> bool:
    """Whether the clock rule lets it compute, by its newest heartbeat. By count, all its clocks are on the newest."""
    config = state.config
    bounds, k, unsettled = config.consistency, config.max_unsettled, _unsettled(group, member)
    if member.version < 0 or policy.too_stale(state.version - member.version, bounds):
        return False
    if not bounds.closes_by_clock:
        return policy.count_starts(since_base=unsettled, unsettled=unsettled, bounds=bounds, k=k)
    return policy.clock_starts(
        pace=group.settled_pace + unsettled,
        settled=[one.settled_pace for one in state.groups.values()],
        published=member.version,
        unsettled=unsettled,
        bounds=bounds,
        k=k,
    )
