"""A set of places in the order of one epoch, kept as ranges."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator


class Places:
    """Ranges ``[start, stop)``: in order, not empty, no two of them touching.

    Args:
        ranges: to begin with; in order and apart.
    """

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._ranges = list(ranges)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._ranges)

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __len__(self) -> int:
        """Return how many places there are."""
        return sum(stop - start for start, stop in self._ranges)

    def holds(self, start: int, stop: int) -> bool:
        """Whether all of these places are in the set."""
        at = bisect_right(self._ranges, (start, 2**63)) - 1
        return start < stop and at >= 0 and stop <= self._ranges[at][1]

    def put(self, start: int, stop: int) -> None:
        """Add places, none of which is in the set."""
        at = bisect_right(self._ranges, (start, 2**63))
        before = at > 0 and self._ranges[at - 1][1] == start
        behind = at < len(self._ranges) and self._ranges[at][0] == stop
        low, high = at - before, at + behind
        first = self._ranges[low][0] if before else start
        last = self._ranges[high - 1][1] if behind else stop
        self._ranges[low:high] = [(first, last)]

    def take(self, start: int, stop: int) -> None:
        """Remove places, all of which are in the set."""
        at = bisect_right(self._ranges, (start, 2**63)) - 1
        first, last = self._ranges[at]
        self._ranges[at : at + 1] = [one for one in ((first, start), (stop, last)) if one[0] < one[1]]
