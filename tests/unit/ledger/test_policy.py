"""The clock rule, row by row: when a version closes, when a group starts its next clock, what a removal raises.

Paces and published versions are those of docs/consistency.md. In every table a row that says yes has a neighbour, one
step away, that says no.
"""

import pytest

from driftline.ledger import policy
from driftline.schemas.run.consistency import Consistency

SYNC = Consistency()
SSP = Consistency(mode="ssp", staleness=2)
DROP_1 = Consistency(drop_slowest=1)
SSP_DROP_1 = Consistency(mode="ssp", staleness=2, drop_slowest=1)
BUFFERED = Consistency(mode="buffered", buffer=3)
AHEAD_2 = Consistency(mode="buffered", buffer=3, ahead=2)
ASYNC = Consistency(mode="async", buffer=1)


@pytest.mark.parametrize(
    ("bounds", "head", "paces", "closes"),
    [
        # sync: every group has spent the clock of the next version
        (SYNC, 0, [1, 1, 1], True),
        (SYNC, 0, [1, 1, 0], False),
        (SYNC, 0, [0, 0, 0], False),
        (SYNC, 7, [8], True),
        (SYNC, 7, [7], False),
        (SYNC, 7, [], False),
        # ssp: the fastest has spent it, and the slowest is at most two versions behind it
        (SSP, 7, [8, 6], True),
        (SSP, 7, [8, 5], False),
        (SSP, 7, [7, 7], False),
        (SSP, 7, [6, 8, 8], True),
        (SSP, 0, [1, 0], True),
        # drop_slowest: one group, the slowest, is not waited for
        (DROP_1, 7, [8, 8, 0], True),
        (DROP_1, 7, [8, 7, 7], False),
        (DROP_1, 7, [8, 0], True),
        (DROP_1, 7, [8], True),  # the only group is waited for all the same
        (DROP_1, 7, [7], False),
        (SSP_DROP_1, 7, [8, 6, 0], True),
        (SSP_DROP_1, 7, [8, 5, 0], False),
    ],
)
def test_by_the_clock_a_version_closes_when_those_waited_for_have_come_far_enough(
    bounds: Consistency, head: int, paces: list[int], *, closes: bool
) -> None:
    assert policy.clock_closes(head, paces, bounds) is closes


@pytest.mark.parametrize(
    ("bounds", "pending", "at_bound", "closes"),
    [
        # buffered: k contributions wait, from any groups
        (BUFFERED, [1, 1, 1], [False, False, False], True),
        (BUFFERED, [3, 0, 0], [False, False, False], True),
        (BUFFERED, [1, 1, 0], [True, True, False], False),
        # or every group is at its bound, and something waits
        (BUFFERED, [1, 1, 0], [True, True, True], True),
        (BUFFERED, [0, 0, 0], [True, True, True], False),
        # async: one waits
        (ASYNC, [0, 1], [False, False], True),
        (ASYNC, [0, 0], [False, False], False),
        (ASYNC, [0, 0], [True, True], False),
        (ASYNC, [], [], False),
    ],
)
def test_by_count_a_version_closes_when_enough_contributions_wait_or_no_group_can_go_on(
    bounds: Consistency, pending: list[int], at_bound: list[bool], *, closes: bool
) -> None:
    assert policy.count_closes(pending, at_bound, bounds) is closes


@pytest.mark.parametrize(
    ("bounds", "pace", "settled", "published", "unsettled", "starts"),
    [
        # sync: on the version that all others have made, too
        (SYNC, 5, [5, 5], 5, 0, True),
        (SYNC, 5, [5, 5], 4, 0, False),  # its parameters are not published yet
        (SYNC, 5, [5, 4], 5, 0, False),  # another group has yet to deliver
        (SYNC, 4, [5, 4], 5, 0, True),  # the slowest itself goes on
        # ssp: at most two versions ahead of the slowest, on parameters at most two versions behind
        (SSP, 7, [7, 5], 7, 0, True),
        (SSP, 7, [7, 4], 7, 0, False),
        (SSP, 7, [7, 7], 5, 0, True),
        (SSP, 7, [7, 7], 4, 0, False),
        # unsettled: fewer than k = 3 clocks under way
        (SSP, 7, [5, 5], 7, 2, True),
        (SSP, 7, [5, 5], 7, 3, False),
        # drop_slowest: one group, the slowest, holds no other back
        (DROP_1, 5, [5, 5, 0], 5, 0, True),
        (DROP_1, 5, [5, 4, 4], 5, 0, False),
        (SSP_DROP_1, 7, [7, 5, 0], 7, 0, True),
        (SSP_DROP_1, 7, [7, 4, 0], 7, 0, False),
    ],
)
def test_by_the_clock_a_group_starts_within_the_bound_of_the_slowest_and_of_the_published_version(
    bounds: Consistency, pace: int, settled: list[int], published: int, unsettled: int, *, starts: bool
) -> None:
    found = policy.clock_starts(
        pace=pace, settled=settled, published=published, unsettled=unsettled, bounds=bounds, k=3
    )
    assert found is starts


@pytest.mark.parametrize(
    ("bounds", "since_base", "unsettled", "starts"),
    [
        # fewer than k = 3 clocks under way
        (BUFFERED, 2, 2, True),
        (BUFFERED, 0, 3, False),
        (ASYNC, 2, 2, True),
        (ASYNC, 0, 3, False),
        # ahead: fewer than two of them on the newest published version
        (AHEAD_2, 1, 2, True),
        (AHEAD_2, 2, 2, False),
        (AHEAD_2, 0, 3, False),
    ],
)
def test_by_count_a_group_starts_below_its_limits_of_clocks_under_way(
    bounds: Consistency, since_base: int, unsettled: int, *, starts: bool
) -> None:
    assert policy.count_starts(since_base=since_base, unsettled=unsettled, bounds=bounds, k=3) is starts


@pytest.mark.parametrize(
    ("bounds", "staleness", "refused"),
    [
        # sync: nothing is stale; ssp: 2 s versions at most
        (SYNC, 0, False),
        (SYNC, 1, True),
        (SSP, 4, False),
        (SSP, 5, True),
        # buffered and async: no limit, unless max_staleness sets one
        (ASYNC, 1_000, False),
        (Consistency(mode="async", buffer=1, max_staleness=3), 3, False),
        (Consistency(mode="async", buffer=1, max_staleness=3), 4, True),
        (Consistency(mode="async", buffer=1, max_staleness=0), 1, True),
        # the lower of two limits counts
        (Consistency(mode="ssp", staleness=2, max_staleness=1), 2, True),
        (Consistency(mode="ssp", staleness=2, max_staleness=9), 5, True),
        # on_stale=damp: used all the same
        (Consistency(mode="ssp", staleness=2, on_stale="damp"), 5, False),
        (Consistency(mode="async", buffer=1, max_staleness=3, on_stale="damp"), 4, False),
    ],
)
def test_a_contribution_is_refused_beyond_the_tolerated_staleness(
    bounds: Consistency, staleness: int, *, refused: bool
) -> None:
    assert policy.too_stale(staleness, bounds) is refused


@pytest.mark.parametrize(
    ("head", "paces", "pending", "raised"),
    [
        # the fastest of those that remain can make the next version, or has a contribution pending for it
        (5, [5, 3], False, 0),
        (5, [6, 3], True, 0),
        # it has fallen behind the head: all rise, so that the head is within reach
        (5, [4, 3], False, 1),
        (5, [2], False, 3),
        # something is pending, so the next version must close with it
        (5, [5, 3], True, 1),
        (5, [4, 3], True, 2),
        # it is ahead already
        (5, [9], False, 0),
        # no group remains
        (5, [], False, 0),
        (5, [], True, 0),
    ],
)
def test_a_removal_raises_the_others_until_the_head_version_is_within_their_reach(
    head: int, paces: list[int], raised: int, *, pending: bool
) -> None:
    assert policy.raise_after_removal(head, paces, pending=pending) == raised


@pytest.mark.parametrize(
    ("bounds", "floor"),
    [(SYNC, None), (SSP, None), (BUFFERED, None), (ASYNC, None), (DROP_1, 8), (SSP_DROP_1, 6)],
)
def test_groups_that_are_not_waited_for_are_raised_behind_the_version(bounds: Consistency, floor: int | None) -> None:
    """Only ``drop_slowest`` leaves a group behind; it is kept at v - s - 1."""
    assert policy.floor_of_slowest(9, bounds) == floor
