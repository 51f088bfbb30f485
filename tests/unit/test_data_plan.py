"""The data is dealt out completely, without overlap, and the same way everywhere."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftline.errors import UsageError
from driftline.training.data import DataPlan, epoch_order, part_of, steps_for_epochs

GOLDEN_START = [226, 768, 161, 748, 853, 932, 878, 204]
GOLDEN_DIGEST = "07bb26f1b8fbea1f"

plans = st.builds(
    DataPlan,
    samples=st.integers(1, 200),
    ranks=st.integers(1, 12),
    batch_size=st.integers(1, 40),
    seed=st.integers(0, 2**63 - 1),
)


@given(plans, st.integers(0, 3))
def test_every_sample_is_read_exactly_once_an_epoch(plan: DataPlan, epoch: int) -> None:
    """All ranks together, in any epoch."""
    cursors = range(epoch * plan.batches_per_epoch, (epoch + 1) * plan.batches_per_epoch)
    batches = [plan.batch(rank, cursor) for rank in range(plan.ranks) for cursor in cursors]
    read = np.concatenate([batch.indices for batch in batches])
    assert sorted(read.tolist()) == list(range(plan.samples))
    assert {batch.epoch for batch in batches} == {epoch}


@given(plans)
def test_parts_differ_by_one_sample_at_most(plan: DataPlan) -> None:
    """No rank works much more than another."""
    lengths = [
        sum(len(plan.batch(rank, cursor).indices) for cursor in range(plan.batches_per_epoch))
        for rank in range(plan.ranks)
    ]
    assert max(lengths) - min(lengths) <= 1


@given(plans)
def test_batches_are_full_but_for_the_last_of_an_epoch_and_no_clock_is_without_any_sample(plan: DataPlan) -> None:
    """A version always has some sample behind it."""
    sizes = [
        [len(plan.batch(rank, cursor).indices) for cursor in range(plan.batches_per_epoch)]
        for rank in range(plan.ranks)
    ]
    for rank_sizes in sizes:
        samples = sum(rank_sizes)
        full, rest = divmod(samples, plan.batch_size)
        expected = [plan.batch_size] * full + [rest] * (rest > 0)
        assert rank_sizes == expected + [0] * (plan.batches_per_epoch - len(expected))
    assert all(any(column) for column in zip(*sizes, strict=True))


@given(plans, st.integers(1, 5))
def test_steps_for_epochs_counts_the_cursors_of_that_many_epochs(plan: DataPlan, epochs: int) -> None:
    """The last step is in the last epoch, and the next would not be."""
    steps = steps_for_epochs(plan.samples, plan.ranks, plan.batch_size, epochs)
    assert plan.batch(0, steps - 1).epoch == epochs - 1
    assert plan.batch(0, steps).epoch == epochs


def test_a_rank_whose_part_is_used_up_has_an_empty_batch() -> None:
    """It then skips, so that all ranks enter the next epoch together."""
    plan = DataPlan(samples=9, ranks=4, batch_size=2, seed=0)
    assert [len(plan.batch(rank, 1).indices) for rank in range(4)] == [1, 0, 0, 0]


def test_each_epoch_and_each_seed_has_its_own_order() -> None:
    """Also for seeds that differ above 32 bits only."""
    orders = {tuple(epoch_order(50, seed, epoch).tolist()) for seed in (0, 1, 2**32, 2**32 + 1) for epoch in range(4)}
    assert len(orders) == 16


def test_a_worker_that_starts_again_at_a_cursor_reads_on_as_if_it_had_never_stopped() -> None:
    """The position is all there is to know."""
    undisturbed = [DataPlan(100, 3, 8, seed=5).batch(1, cursor).indices.tolist() for cursor in range(15)]
    epoch_order.cache_clear()
    restarted = [DataPlan(100, 3, 8, seed=5).batch(1, cursor).indices.tolist() for cursor in range(7, 15)]
    assert undisturbed[7:] == restarted


def test_the_order_is_the_same_in_every_release() -> None:
    """Golden: workers with other versions of numpy or driftline read the same parts."""
    order = epoch_order(1000, 7, 3)
    assert order[:8].tolist() == GOLDEN_START
    assert hashlib.sha256(order.astype("<i8").tobytes()).hexdigest()[:16] == GOLDEN_DIGEST


def test_the_order_cannot_be_changed_by_whoever_reads_it() -> None:
    """It is shared between calls."""
    with pytest.raises(ValueError, match="read-only"):
        DataPlan(10, 1, 4, seed=0).batch(0, 0).indices[0] = 3


@given(st.sets(st.text(min_size=1, max_size=5), min_size=1, max_size=8), st.randoms())
def test_first_members_have_one_part_each_whatever_the_order_of_their_arrival(names: set[str], random: object) -> None:
    """Ranks are places among sorted names."""
    arrival = list(names)
    random.shuffle(arrival)  # type: ignore[attr-defined]
    parts = [part_of(name, arrival) for name in sorted(names)]
    assert [part.rank for part in parts] == list(range(len(names)))
    assert all(part.ranks == len(names) and not part.note for part in parts)


def test_a_later_worker_shares_a_part_always_the_same_and_says_so() -> None:
    """By a stable hash of its name."""
    part = part_of("w9", ["w0", "w1", "w2"])
    assert part == part_of("w9", ["w2", "w0", "w1"])
    assert part.rank in range(3)
    assert "'w9' was not among the run's first 3" in part.note
    assert f"'w{part.rank}'" in part.note


def test_without_first_members_there_are_no_parts() -> None:
    """The message says what to wait for."""
    with pytest.raises(UsageError, match="wait for the first Membership"):
        part_of("w0", [])


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((0, 1, 1, 0), "samples is 0"),
        ((1, 0, 1, 0), "ranks is 0"),
        ((1, 1, 0, 0), "batch_size is 0"),
        ((1, 1, 1, -1), "seed is -1"),
    ],
)
def test_numbers_out_of_range_are_refused_by_name(numbers: tuple[int, int, int, int], message: str) -> None:
    """Before anything is dealt out."""
    with pytest.raises(UsageError, match=message):
        DataPlan(*numbers)


def test_a_batch_of_no_rank_or_no_place_is_refused() -> None:
    """Each number is named."""
    plan = DataPlan(10, 2, 4, seed=0)
    with pytest.raises(UsageError, match="rank 2 is not one of the 2 ranks"):
        plan.batch(2, 0)
    with pytest.raises(UsageError, match="cursor -1"):
        plan.batch(0, -1)
    with pytest.raises(UsageError, match="epochs is 0"):
        steps_for_epochs(10, 2, 4, 0)
