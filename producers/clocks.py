"""The clocks of a worker: what it has spent and the ledger has not decided on, and what its next clock waits for.

A clock is spent at its first byte: part of it may be in the log, and other bytes under its number would contradict
those. So its event is always repeated as it was, and a clock that was interrupted between two deltas is skipped.
"""

from collections.abc import Callable, Iterator

from driftline.ledger.run_state import RunState
from driftline.producers.deltas import Base, DeltaEncoder
from driftline.producers.member import send_event
from driftline.schemas.effects import Effect
from driftline.schemas.records import Contribution, Skip
from driftline.schemas.records.sample_range import SampleRange, Samples

INTERRUPTED = "it was interrupted while it was sent"

IsSettled = Callable[[Contribution | Skip], bool]


class SpentClocks:
    """Clocks that are spent and not settled.

    Attributes:
        events: clock → the event that announces it.
    """

    def __init__(self) -> None:
        self.events: dict[int, Contribution | Skip] = {}
        self._in_hand: Skip | None = None

    def __len__(self) -> int:
        return len(self.events)

    def samples(self) -> Iterator[SampleRange]:
        """Go through what these clocks have read."""
        return (one for event in self.events.values() for one in event.samples)

    def forget(self, is_settled: IsSettled) -> None:
        """Forget those that the ledger has decided on."""
        self.events = {clock: one for clock, one in self.events.items() if not is_settled(one)}

    def repeat(self) -> list[Effect]:
        """Announce all of them again, in order."""
        return [send_event(self.events[clock]) for clock in sorted(self.events)]

    @property
    def is_interrupted(self) -> bool:
        """Whether the effects of a clock were not all taken, and `close_interrupted` has not closed it yet."""
        return self._in_hand is not None

    def spend(self, base: Base, deltas: DeltaEncoder, cursor: int) -> Iterator[Effect]:
        """Spend a clock on deltas, as the effects are taken; if not all are, `close_interrupted` has to follow."""
        self._in_hand = _skip(base, cursor, INTERRUPTED, ())
        yield from deltas.sends()
        contribution = deltas.contribution()
        self.events[base.clock] = contribution
        yield send_event(contribution)
        self._in_hand = None

    def spend_without_deltas(self, base: Base, cursor: int, reason: str, samples: Samples) -> Iterator[Effect]:
        """Spend a clock without a gradient; effects as for `spend`."""
        skip = self._in_hand = self.events[base.clock] = _skip(base, cursor, reason, samples)
        yield send_event(skip)
        self._in_hand = None

    def close_interrupted(self, is_settled: IsSettled) -> list[Effect]:
        """Announce a clock whose effects were not all taken; nothing if there is none.

        Between two deltas it becomes a skip, and its samples stay leased; after the last delta it is announced again.
        """
        skip, self._in_hand = self._in_hand, None
        if skip is None or is_settled(skip):
            return []
        return [send_event(self.events.setdefault(skip.clock, skip))]


def _skip(base: Base, cursor: int, reason: str, samples: Samples) -> Skip:
    return Skip(
        run=base.run,
        group=base.group,
        clock=base.clock,
        base_version=base.version,
        base_head=base.head,
        cursor=cursor,
        reason=reason,
        samples=samples,
    )


def is_last(state: RunState, pace: int) -> bool:
    """Whether another clock of a worker with this pace could not become part of any version."""
    by_pace = state.config.consistency.closes_by_clock and state.config.is_last(pace)
    return by_pace or state.is_finished


def waiting_for(state: RunState, run: str, name: str, pace: int, *, has_parameters: bool, is_member: bool) -> str:
    """Return what the next clock of a worker waits for, and which workers.

    Args:
        state: the fold of the ledger.
        run: its name, for when the ledger is empty.
        name: of the worker.
        pace: of the worker, in versions.
        has_parameters: whether it has the parameters of any version.
        is_member: whether the ledger has its `Join`.
    """
    if not state.has_begun:
        return f"the run to start: a server must be up to accept the proposal (driftline server {run})"
    if not has_parameters:
        return "parameters: a server must publish a version"
    if not is_member:
        if state.first_names:
            return "the coordinator to let it join"
        return f"the run's {state.config.workers} workers to be ready"
    others = (one for one in state.groups.values() if one.worker != name)
    slow = sorted(one.worker for one in others if one.settled_pace < pace)
    return f"version {state.version + 1}, for which {', '.join(slow) or 'the servers'} must deliver"
