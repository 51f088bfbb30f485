"""Ranges of samples, by their position in the shuffled order of an epoch."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SampleRange:
    """Positions ``start`` … ``start + count - 1`` in the shuffled order of an epoch, counted from 0."""

    epoch: int
    start: int
    count: int

    @property
    def stop(self) -> int:
        """The position behind the last one."""
        return self.start + self.count

    def meets(self, other: "SampleRange") -> bool:
        """Whether any sample is in both."""
        return self.epoch == other.epoch and self.start < other.stop and other.start < self.stop

    def __str__(self) -> str:
        return f"{self.start}…{self.stop - 1} of epoch {self.epoch}"


Samples = tuple[SampleRange, ...]
"""A set of samples: ranges in order, none empty, none overlapping or touching another."""


def joined(ranges: Iterable[SampleRange]) -> Samples:
    """Return ranges in their order, those that touch as one."""
    found: list[SampleRange] = []
    for one in sorted(ranges):
        last = found[-1] if found else None
        if last is not None and last.epoch == one.epoch and last.stop == one.start:
            found[-1] = SampleRange(epoch=last.epoch, start=last.start, count=last.count + one.count)
        else:
            found.append(one)
    return tuple(found)


def count(samples: Iterable[SampleRange]) -> int:
    """Return how many samples these are."""
    return sum(one.count for one in samples)


def without(samples: Samples, read: Iterable[SampleRange]) -> Samples:
    """Return ``samples`` without those in ``read``."""
    left = list(samples)
    for one in read:
        left = [part for whole in left for part in _cut(whole, one)]
    return tuple(left)


def _cut(whole: SampleRange, away: SampleRange) -> Iterator[SampleRange]:
    if not whole.meets(away):
        yield whole
        return
    for start, stop in ((whole.start, away.start), (away.stop, whole.stop)):
        if start < stop:
            yield SampleRange(epoch=whole.epoch, start=start, count=stop - start)


def overlap(some: Iterable[SampleRange], others: Iterable[SampleRange]) -> bool:
    """Whether any sample is in both."""
    apart = list(others)
    return any(one.meets(other) for one in some for other in apart)


def samples_problem(samples: Samples) -> str:
    """Return why these are no set of samples, or an empty string."""
    for one in samples:
        if one.epoch < 0 or one.start < 0 or one.count < 1:
            return f"{one.count} samples from place {one.start} of epoch {one.epoch}"
    apart = all((one.epoch, one.stop) < (two.epoch, two.start) for one, two in pairwise(samples))
    return "" if apart else "ranges of samples that overlap, touch, or are out of order"
