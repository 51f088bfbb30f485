"""The clocks of a worker that are spent and not settled: what was said in each, until the ledger has decided on it.

A clock is spent at its first byte: some of it may be in the log, and other bytes under its number would contradict
those. So what is said of it once is repeated as it is, and a clock that was interrupted in between is skipped.
"""

from collections.abc import Callable, Iterator

from driftline.broker.topics import Stream
from driftline.producers.deltas import Base, Cut, announce
from driftline.schemas.codec import encode
from driftline.schemas.effects import Effect, Send
from driftline.schemas.records import Contribution, Skip
from driftline.schemas.records.sample_range import SampleRange, Samples

INTERRUPTED = "it was interrupted while it was sent"

IsSettled = Callable[[Contribution | Skip], bool]


class SpentClocks:
    """What a member has said in its clocks under way.

    Attributes:
        events: clock → what announces it.
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

    def repeated(self) -> list[Effect]:
        """Say everything again."""
        return [_said(self.events[clock]) for clock in sorted(self.events)]

    @property
    def is_interrupted(self) -> bool:
        """Whether the effects of a clock were not all taken, and `interrupted` has not said what becomes of it."""
        return self._in_hand is not None

    # -- spending ----------------------------------------------------------------------------------------------------

    def contribute(self, base: Base, cut: Cut, cursor: int) -> Iterator[Effect]:
        """Spend a clock on deltas, as the effects are taken; all must be, or `interrupted` has to follow."""
        self._in_hand = _skip(base, cursor, INTERRUPTED, ())
        yield from cut.deltas()
        contribution = cut.contribution()
        self.events[base.clock] = contribution
        yield _said(contribution)
        self._in_hand = None

    def skip(self, base: Base, cursor: int, reason: str, samples: Samples) -> Iterator[Effect]:
        """Spend a clock without a delta; as for `contribute`."""
        skip = self._in_hand = self.events[base.clock] = _skip(base, cursor, reason, samples)
        yield _said(skip)
        self._in_hand = None

    def interrupted(self, is_settled: IsSettled) -> list[Effect]:
        """Say what becomes of a clock whose effects were not all taken; nothing if there is none.

        Between two deltas it becomes a skip, and what it has read stays leased; behind them it is announced again.
        """
        skip, self._in_hand = self._in_hand, None
        if skip is None or is_settled(skip):
            return []
        return [_said(self.events.setdefault(skip.clock, skip))]


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


def _said(event: Contribution | Skip) -> Send:
    return announce(event) if isinstance(event, Contribution) else Send(Stream.EVENTS, 0, encode(event))
