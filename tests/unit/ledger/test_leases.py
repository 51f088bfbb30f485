"""Who may read which samples, and what the next lease says."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftline.ledger.leases import MOST_OPEN, Leases
from driftline.schemas.records import Grant, GroupId, SampleRange
from driftline.schemas.records.sample_range import Samples, count, joined, without
from driftline.schemas.run.config import RuleConfig, RunConfig
from driftline.schemas.run.data import DataConfig
from driftline.schemas.run.local_work import LocalWork

A, B, C = (GroupId(7, index) for index in range(3))
ONE_BATCH = LocalWork()
NAMES = {A: "ada", B: "bob", C: "cyn"}


def places(start: int, stop: int, epoch: int = 0) -> SampleRange:
    return SampleRange(epoch=epoch, start=start, count=stop - start)


def config(local: LocalWork = ONE_BATCH, /, **data: int) -> RunConfig:
    return RunConfig(
        name="r",
        workers=2,
        steps=0,
        rule=RuleConfig(name="sgd", groups=({"lr": 0.1},)),
        local=local,
        data=DataConfig(**{"samples": 100, "batch_size": 4, "block": 8, **data}),
    )


def leases(*groups: GroupId, **data: int) -> Leases:
    """Return the leases of a run that these have joined."""
    one = Leases(config(**data))
    for group in groups:
        one.enter(group, NAMES[group])
    return one


def lease(one: Leases) -> tuple[Grant, ...]:
    """Write what is due into the ledger."""
    due = one.due()
    for grant in due:
        assert not one.grant_problem(grant)
        one.grant(grant)
    assert not one.due()
    return due


def test_everybody_gets_two_blocks_in_the_order_of_names() -> None:
    """And none is leased more, until less than one is left."""
    one = Leases(config())
    for group in (C, A, B):
        one.enter(group, NAMES[group])
    assert [(grant.group, grant.samples) for grant in lease(one)] == [
        (A, places(0, 16)),
        (B, places(16, 32)),
        (C, places(32, 48)),
    ]
    one.use(A, (places(0, 8),), discarded=False)
    assert one.due() == ()
    one.use(A, (places(8, 9),), discarded=False)
    assert lease(one) == (Grant(group=A, samples=places(48, 57)),)


def test_clocks_of_several_batches_get_as_many_as_may_be_under_way() -> None:
    """Two clocks of three batches of four, and a block more."""
    one = Leases(config(LocalWork(steps=3)))
    one.enter(A, "ada")
    assert lease(one) == (Grant(group=A, samples=places(0, 32)),)


def test_timed_clocks_get_twice_what_the_last_one_has_read() -> None:
    """For each of those that may be under way: how much the next one reads is not known."""
    one = Leases(config(LocalWork(clock_s=1.0), block=20))
    one.enter(A, "ada")
    assert lease(one) == (Grant(group=A, samples=places(0, 40)),)
    one.use(A, (places(0, 24),), discarded=False)
    assert count(grant.samples for grant in lease(one)) == 2 * 2 * 24 + 20 - 16


def test_a_new_epoch_begins_when_nothing_is_left_of_those_before() -> None:
    one = leases(A, B, samples=20)
    assert [(grant.group, grant.samples) for grant in lease(one)] == [
        (A, places(0, 16)),
        (B, places(16, 20)),
        (B, places(0, 12, epoch=1)),
    ]


def test_what_a_removed_worker_holds_is_leased_again_oldest_epoch_first() -> None:
    one = leases(A, B, samples=20)
    lease(one)
    one.use(A, (places(0, 4),), discarded=False)
    one.leave(A)
    one.use(B, (places(16, 20), places(0, 12, epoch=1)), discarded=False)
    assert [grant.samples for grant in lease(one)] == [places(4, 16), places(12, 16, epoch=1)]


def test_too_few_for_all_are_dealt_batch_by_batch() -> None:
    """So that all workers end together."""
    one = leases(A, B, C, samples=22, epochs=1)
    assert [(grant.group, count([grant.samples])) for grant in lease(one)] == [(A, 8), (B, 8), (C, 6)]


def test_an_epoch_is_over_when_everything_is_consumed_or_discarded() -> None:
    one = leases(A, samples=16, epochs=1)
    lease(one)
    one.use(A, (places(0, 10),), discarded=False)
    one.use(A, (places(10, 12),), discarded=True)
    assert (one.epoch, one.used(0), one.is_done) == (0, (10, 2), False)
    one.use(A, (places(12, 16),), discarded=False)
    assert (one.epoch, one.consumed, one.discarded, one.is_done) == (1, 14, 2, True)
    assert one.due() == ()


def test_a_worker_far_ahead_of_the_slowest_waits() -> None:
    one = leases(A, B, samples=1, block=4)
    lease(one)
    while held := one.held(B):
        one.use(B, held, discarded=False)
        lease(one)
    assert one.next_epoch == MOST_OPEN
    one.use(A, one.held(A), discarded=False)
    assert lease(one)


@pytest.mark.parametrize(
    ("grant", "said"),
    [
        (Grant(group=A, samples=places(15, 17)), "not free"),
        (Grant(group=A, samples=places(90, 101)), "not free"),
        (Grant(group=B, samples=places(50, 60)), "no member"),
        (Grant(group=A, samples=places(0, 4, epoch=2)), "not under way"),
    ],
)
def test_what_cannot_be_leased_is_named(grant: Grant, said: str) -> None:
    one = leases(A)
    lease(one)
    assert said in one.grant_problem(grant)


@pytest.mark.parametrize("samples", [places(15, 17), places(40, 41), places(0, 4, epoch=1)])
def test_what_a_group_does_not_hold_it_cannot_have_read(samples: SampleRange) -> None:
    one = leases(A, B)
    lease(one)
    assert "not leased to it" in one.problem(A, (places(0, 2), samples))
    assert not one.problem(A, (places(0, 2), places(5, 16)))


def test_without_data_nothing_is_leased() -> None:
    one = Leases(replace(config(), data=DataConfig()))
    one.enter(A, "ada")
    assert (one.is_on, one.due(), one.held(A), one.is_done) == (False, (), (), False)
    one.use(A, (), discarded=False)
    one.leave(A)


@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 3), st.integers(1, 7))
def test_whatever_workers_do_each_sample_is_used_once_an_epoch(
    seed: int, samples: int, epochs: int, batch: int
) -> None:
    """Counted one by one; on the way dumped and restored again and again."""
    rng = random.Random(seed)  # noqa: S311 - repeatable is what is wanted here
    plan = config(samples=samples, epochs=epochs, batch_size=batch, block=batch)
    one, used, names, joins = Leases(plan), list[tuple[int, int]](), dict[GroupId, str](), 0
    while not one.is_done:
        if not names or rng.random() < 0.2:
            joins += 1
            names[GroupId(joins, 0)] = f"w{joins % 5}"
            one.enter(GroupId(joins, 0), f"w{joins % 5}")
        lease(one)
        group = rng.choice(list(names))
        read = some(one.held(group), rng)
        assert not one.problem(group, read)
        one.use(group, read, discarded=rng.random() < 0.1)
        used += [(part.epoch, place) for part in read for place in range(part.start, part.stop)]
        if rng.random() < 0.3:
            one.leave(group)
            del names[group]
        rows = one.dump()
        one = Leases.restored(plan, rows, names)
        assert one.dump() == rows
    assert sorted(used) == [(epoch, place) for epoch in range(epochs) for place in range(samples)]
    assert one.consumed + one.discarded == epochs * samples


def some(held: Samples, rng: random.Random) -> Samples:
    """Return some of the samples that are held, at any place."""
    if not held:
        return ()
    whole = rng.choice(held)
    start = rng.randrange(whole.start, whole.stop)
    return (places(start, rng.randint(start + 1, whole.stop), whole.epoch),)


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_ranges_are_sets_of_places(some_places: set[int], others: set[int]) -> None:
    ranges, away = (joined(places(one, one + 1) for one in found) for found in (some_places, others))
    left = without(ranges, away)
    assert {place for one in left for place in range(one.start, one.stop)} == some_places - others
    assert count(ranges) == len(some_places)
