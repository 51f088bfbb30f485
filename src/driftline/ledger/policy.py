"""When a version closes, and when a group may start its next clock.

Pure functions. By the clock (s = 0 is bulk-synchronous, s > 0 stale-synchronous parallel):

    pace(g)    entry pace + clocks spent (settled | pending whole) + raises; settled(g) is its ledger-visible part
    low(x)     the (min(b, live - 1) + 1)-th smallest, b = drop_slowest: the slowest group that is waited for
    CLOSE      version v = head + 1 when max pace ≥ v and low(pace) ≥ v - s: take everything pending; then, if b > 0,
               raise groups that are below v - s - 1 to v - s - 1
    START      next clock when pace - low(settled) ≤ s, published base ≥ pace - s, unsettled < K
    REMOVAL    raise every live pace by d = max(0, head + (1 if anything is pending) - max pace)

By count (buffered, async):

    CLOSE      when k contributions are pending, or every live group is at its bound
    START      next clock when unsettled < K and, if `ahead` is set, own clocks since base < ahead
"""

from collections.abc import Iterable, Sequence

from driftline.schemas.run.consistency import Consistency


def low(paces: Sequence[int], drop_slowest: int) -> int:
    """Return the pace of the slowest group that is waited for; there is at least one group."""
    return sorted(paces)[min(drop_slowest, len(paces) - 1)]


def clock_closes(head: int, paces: Sequence[int], bounds: Consistency) -> bool:
    """Whether the clock rule makes version ``head + 1``, given the paces of all live groups."""
    if not paces:
        return False
    return max(paces) >= head + 1 and low(paces, bounds.drop_slowest) >= head + 1 - bounds.staleness


def count_closes(pending: Sequence[int], at_bound: Iterable[bool], bounds: Consistency) -> bool:
    """Whether counting makes the next version, given pending contributions and whether it is stuck, a live group."""
    waiting = sum(pending)
    return waiting >= bounds.buffer or (waiting > 0 and all(at_bound))


def clock_starts(
    *, pace: int, settled: Sequence[int], published: int, unsettled: int, bounds: Consistency, k: int
) -> bool:
    """Whether the clock rule lets a group start its next clock; ``settled`` holds the paces of all live groups."""
    close_enough = pace - low(settled, bounds.drop_slowest) <= bounds.staleness
    return close_enough and published >= pace - bounds.staleness and unsettled < k


def count_starts(*, since_base: int, unsettled: int, bounds: Consistency, k: int) -> bool:
    """Whether a group may start its next clock when versions close by count.

    Args:
        since_base: clocks that it has spent on the newest published version.
        unsettled: its clocks under way.
        bounds: of the run.
        k: limit of ``unsettled``.
    """
    return unsettled < k and (bounds.ahead == 0 or since_base < bounds.ahead)


def too_stale(staleness: int, bounds: Consistency) -> bool:
    """Whether a contribution this many versions stale is refused."""
    return bounds.on_stale == "reject" and bounds.tolerated is not None and staleness > bounds.tolerated


def raise_after_removal(head: int, paces: Sequence[int], *, pending: bool) -> int:
    """By how much every remaining pace rises when a group is removed, so that the head cannot stay out of reach."""
    if not paces:
        return 0
    return max(0, head + (1 if pending else 0) - max(paces))


def floor_of_slowest(version: int, bounds: Consistency) -> int | None:
    """Pace to which slower groups are raised after ``version`` has closed; None when nobody is left behind."""
    return version - bounds.staleness - 1 if bounds.drop_slowest else None
