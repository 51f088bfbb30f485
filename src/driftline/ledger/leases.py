"""Which samples each group may read: a fold of the ledger, and the rule that grants more.

Each epoch is a pool of positions in its shuffled order. A `Lease` moves positions from the pool to a group. The
`Version` that settles a clock consumes what the clock has read; if no gradient came of it, the samples are discarded.
A `Rejection` leaves them with the group, or discards them. The removal of a group returns to the pool what it still
holds. An epoch is over when all of its samples are consumed or discarded.

The rule depends on the ledger alone, never on events or time, so the same run always leases the same samples:

    WHO    a group that holds fewer samples than a block, or than its next K clocks may read
    HOW    as many as it lacks, and a block more, in the order of worker names; if too few are left for all, one batch
    MANY   to each group in turn
    WHICH  the first free positions of the oldest epoch; a new epoch begins when those before it have none left
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from driftline.ledger.sample_positions import Places
from driftline.schemas.records import Grant, GroupId
from driftline.schemas.records.sample_range import SampleRange, Samples, count, joined
from driftline.schemas.run.config import RunConfig

MOST_OPEN: Final = 64
"""Epochs from the oldest under way to the newest, both included: a worker so far ahead of the slowest waits."""

Row = tuple[int, int, int, int, int, int]
"""Kind, and five numbers: see `Leases.dump`."""

_POOL, _HELD, _GROUP, _OPEN, _TOTAL = range(5)


@dataclass(slots=True)
class _Epoch:
    """An epoch under way: its free places, and how many of the others are used up."""

    free: Places
    consumed: int = 0
    discarded: int = 0


@dataclass(slots=True)
class _Holder:
    """A live group: what it holds by epoch, and how many samples its last settled clock has read."""

    worker: str
    read: int = 0
    held: dict[int, Places] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(len(places) for places in self.held.values())


class Leases:
    """What the ledger says of samples. Methods that change it expect what the methods named ``…problem`` let through.

    Args:
        config: of the run.

    Attributes:
        next_epoch: the first that has not begun; those before it are under way or over.
        consumed: samples that went into a gradient that counts, over all epochs.
        discarded: samples that went into none and are used up.
    """

    def __init__(self, config: RunConfig) -> None:
        self._data = config.data
        self._fixed = 0 if config.local.is_boxed else config.data.batch_size * config.local.steps
        self._clocks = config.max_unsettled
        self.next_epoch = 0
        self.consumed = 0
        self.discarded = 0
        self._epochs: dict[int, _Epoch] = {}
        self._holders: dict[GroupId, _Holder] = {}
        self._due: tuple[Grant, ...] | None = None

    # -- questions ---------------------------------------------------------------------------------------------------

    @property
    def is_on(self) -> bool:
        """Whether samples are leased in this run."""
        return self._data.is_leased

    @property
    def is_done(self) -> bool:
        """Whether the run has used each sample as often as it was to."""
        return self.is_on and 0 < self._data.epochs <= self.next_epoch and not self._epochs

    @property
    def epoch(self) -> int:
        """The oldest epoch under way, or the next one."""
        return min(self._epochs, default=self.next_epoch)

    def used(self, epoch: int) -> tuple[int, int]:
        """Return how many samples of an epoch are consumed and discarded; it is under way, or has not begun."""
        one = self._epochs.get(epoch)
        return (0, 0) if one is None else (one.consumed, one.discarded)

    def is_free(self, epoch: int) -> bool:
        """Whether an epoch has samples that are not leased yet."""
        one = self._epochs.get(epoch)
        return epoch >= self.next_epoch if one is None else bool(one.free)

    def held(self, group: GroupId) -> Samples:
        """Return what a group holds, whatever clocks under way have read of it."""
        holder = self._holders.get(group)
        epochs = {} if holder is None else holder.held
        return tuple(_range(epoch, *place) for epoch in sorted(epochs) for place in epochs[epoch])

    def due(self) -> tuple[Grant, ...]:
        """Return what the next `Lease` grants; nothing if no group lacks samples, or none are left."""
        if self._due is None:
            self._due = tuple(self._grants()) if self.is_on else ()
        return self._due

    def is_due(self, group: GroupId) -> bool:
        """Whether the next `Lease` grants something to this group."""
        return any(one.group == group for one in self.due())

    # -- what cannot be ----------------------------------------------------------------------------------------------

    def grant_problem(self, grant: Grant) -> str:
        """Return why samples cannot be leased to a group, or nothing."""
        one, group = grant.samples, grant.group
        if group not in self._holders:
            return f"samples {one} for group {group}, which is no member"
        known = self._epochs.get(one.epoch)
        if known is None and (one.epoch != self.next_epoch or not self._may_begin()):
            return f"samples {one}, and that epoch is not under way"
        free = Places([(0, self._data.samples)]) if known is None else known.free
        return "" if free.holds(one.start, one.stop) else f"samples {one}, which are not free"

    def problem(self, group: GroupId, samples: Samples) -> str:
        """Return why a group cannot have read these, or nothing."""
        holder = self._holders.get(group)
        for one in samples:
            places = None if holder is None else holder.held.get(one.epoch)
            if places is None or not places.holds(one.start, one.stop):
                return f"its samples {one} are not leased to it"
        return ""

    # -- the ledger goes on ------------------------------------------------------------------------------------------

    def enter(self, group: GroupId, worker: str) -> None:
        """A group has become a member."""
        self._due = None
        self._holders[group] = _Holder(worker)

    def leave(self, group: GroupId) -> None:
        """A group is no member any more: what it holds is free again."""
        self._due = None
        for epoch, places in self._holders.pop(group).held.items():
            for start, stop in places:
                self._epochs[epoch].free.put(start, stop)

    def grant(self, grant: Grant) -> None:
        """Samples are leased to a group."""
        self._due = None
        one = grant.samples
        if one.epoch == self.next_epoch:
            self._epochs[one.epoch] = _Epoch(Places([(0, self._data.samples)]))
            self.next_epoch += 1
        self._epochs[one.epoch].free.take(one.start, one.stop)
        self._holders[grant.group].held.setdefault(one.epoch, Places()).put(one.start, one.stop)

    def use(self, group: GroupId, samples: Samples, *, discarded: bool) -> None:
        """A clock of a group is settled, and these are used up."""
        self._due = None
        holder = self._holders[group]
        holder.read = count(samples)
        for one in samples:
            holder.held[one.epoch].take(one.start, one.stop)
            if not holder.held[one.epoch]:
                del holder.held[one.epoch]
            self._use_up(one, discarded=discarded)

    def _use_up(self, one: SampleRange, *, discarded: bool) -> None:
        epoch = self._epochs[one.epoch]
        if discarded:
            epoch.discarded += one.count
            self.discarded += one.count
        else:
            epoch.consumed += one.count
            self.consumed += one.count
        if epoch.consumed + epoch.discarded == self._data.samples:
            del self._epochs[one.epoch]

    # -- the rule ----------------------------------------------------------------------------------------------------

    def _may_begin(self) -> int:
        """Return how many epochs may begin now."""
        room = MOST_OPEN - (self.next_epoch - self.epoch)
        return min(room, self._data.epochs - self.next_epoch) if self._data.epochs else room

    def _free(self) -> Iterator[tuple[int, int, int]]:
        """Go through what is free, oldest first: epoch, first place, place behind the last."""
        for epoch in sorted(self._epochs):
            yield from ((epoch, start, stop) for start, stop in self._epochs[epoch].free)
        for epoch in range(self.next_epoch, self.next_epoch + self._may_begin()):
            yield epoch, 0, self._data.samples

    def _grants(self) -> Iterator[Grant]:
        free = self._free()
        epoch = start = stop = 0
        for group, size in self._shares().items():
            granted: list[SampleRange] = []
            left = size
            while left > 0:
                if start == stop:
                    epoch, start, stop = next(free)
                end = min(stop, start + left)
                granted.append(_range(epoch, start, end))
                left, start = left - (end - start), end
            yield from (Grant(group=group, samples=one) for one in joined(granted))

    def _shares(self) -> dict[GroupId, int]:
        """Return how many samples each group gets, in the order of worker names."""
        wanted = {
            group: missing
            for group, holder in sorted(self._holders.items(), key=lambda one: one[1].worker)
            if (missing := self._missing(holder))
        }
        left = sum(len(one.free) for one in self._epochs.values()) + self._may_begin() * self._data.samples
        return wanted if sum(wanted.values()) <= left else _dealt(wanted, left, max(1, self._data.batch_size))

    def _missing(self, holder: _Holder) -> int:
        """Return how many samples a group lacks."""
        enough = max(self._data.block, self._clocks * (self._fixed or 2 * holder.read))
        held = len(holder)
        return enough + self._data.block - held if held < enough else 0

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def dump(self) -> tuple[Row, ...]:
        """Return everything as rows of six numbers, in order: equal leases have equal rows.

        Kind 0: free places (epoch, start, stop); 1: places held by a group (its offset, index, epoch, start, stop);
        2: a group (offset, index, samples of its last clock); 3: an epoch under way (epoch, consumed, discarded);
        4: totals (next epoch, consumed, discarded). What a kind does not need is 0.
        """
        rows: list[Row] = [(_TOTAL, self.next_epoch, self.consumed, self.discarded, 0, 0)]
        for epoch, one in self._epochs.items():
            rows.append((_OPEN, epoch, one.consumed, one.discarded, 0, 0))
            rows += [(_POOL, epoch, start, stop, 0, 0) for start, stop in one.free]
        for group, holder in self._holders.items():
            rows.append((_GROUP, group.offset, group.index, holder.read, 0, 0))
            rows += [(_HELD, group.offset, group.index, one.epoch, one.start, one.stop) for one in self.held(group)]
        return tuple(sorted(rows))

    @classmethod
    def restored(cls, config: RunConfig, rows: Iterable[Row], workers: Mapping[GroupId, str]) -> Self:
        """Return the leases that were dumped; ``workers`` names the worker of every live group."""
        leases, rest = cls(config), sorted(rows, reverse=True)  # epochs and groups before what they have
        for kind, *numbers in rest:
            leases._put(kind, numbers, workers)
        return leases

    def _put(self, kind: int, numbers: list[int], workers: Mapping[GroupId, str]) -> None:
        first, second, third, fourth, fifth = numbers
        if kind == _TOTAL:
            self.next_epoch, self.consumed, self.discarded = first, second, third
        elif kind == _OPEN:
            self._epochs[first] = _Epoch(Places(), second, third)
        elif kind == _POOL:
            self._epochs[first].free.put(second, third)
        elif kind == _GROUP:
            group = GroupId(first, second)
            self._holders[group] = _Holder(workers[group], third)
        else:
            self._holders[GroupId(first, second)].held.setdefault(third, Places()).put(fourth, fifth)


def _range(epoch: int, start: int, stop: int) -> SampleRange:
    return SampleRange(epoch=epoch, start=start, count=stop - start)


def _dealt(wanted: Mapping[GroupId, int], left: int, batch: int) -> dict[GroupId, int]:
    """Deal what is left, a batch each in turn, up to what is wanted."""
    dealt = dict.fromkeys(wanted, 0)
    while left > 0:
        for group, most in wanted.items():
            size = min(batch, most - dealt[group], left)
            dealt[group] += size
            left -= size
    return dealt
