"""The order of an epoch, the same everywhere, and the batches that are read of it."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftline.schemas.records.sample_range import SampleRange, Samples, count, joined
from driftline.training.task.data import LeasedSamples
from driftline.training.worker.order import epoch_order

GOLDEN_START = [226, 768, 161, 748, 853, 932, 878, 204]
GOLDEN_DIGEST = "07bb26f1b8fbea1f"


def places(epoch: int, start: int, stop: int) -> SampleRange:
    return SampleRange(epoch=epoch, start=start, count=stop - start)


@st.composite
def leases(draw: st.DrawFn) -> Samples:
    """Draw ranges of up to three epochs of 100 samples."""
    found = []
    for epoch in range(3):
        cuts = sorted(draw(st.sets(st.integers(0, 100), max_size=8)))
        found += [places(epoch, start, stop) for start, stop in zip(cuts[::2], cuts[1::2], strict=False)]
    return tuple(found)


@given(leases(), st.integers(1, 40))
def test_every_leased_sample_is_read_once_and_no_other(leased: Samples, size: int) -> None:
    """In batches that are full but for the last of an epoch, none of which is of two epochs."""
    data = LeasedSamples(100, 5, leased)
    batches = []
    while len(batch := data.batch(size)):
        batches.append(batch)
    expected = [epoch_order(100, 5, one.epoch)[one.start : one.stop] for one in leased]
    assert np.concatenate([*batches, *[[]]]).tolist() == np.concatenate([*expected, *[[]]]).tolist()
    assert data.read == joined(leased)
    by_epoch = [count(one for one in leased if one.epoch == epoch) for epoch in range(3)]
    sizes = [part for whole in by_epoch for part in [size] * (whole // size) + [whole % size] * (whole % size > 0)]
    assert [len(batch) for batch in batches] == sizes


def test_samples_that_were_read_are_reported_in_ranges() -> None:
    data = LeasedSamples(10, 0, (places(0, 2, 4), places(0, 7, 10), places(1, 0, 5)))
    data.batch(4)
    assert data.read == (places(0, 2, 4), places(0, 7, 9))
    data.batch(4)
    assert data.read == (places(0, 2, 4), places(0, 7, 10))


def test_each_epoch_and_each_seed_has_its_own_order() -> None:
    """Also for seeds that differ above 32 bits only."""
    orders = {tuple(epoch_order(50, seed, epoch).tolist()) for seed in (0, 1, 2**32, 2**32 + 1) for epoch in range(4)}
    assert len(orders) == 16


def test_the_order_is_the_same_in_every_release() -> None:
    """Golden: workers with other versions of numpy or driftline read the same samples at the same places."""
    order = epoch_order(1000, 7, 3)
    assert order[:8].tolist() == GOLDEN_START
    assert hashlib.sha256(order.astype("<i8").tobytes()).hexdigest()[:16] == GOLDEN_DIGEST


def test_the_order_cannot_be_changed_by_a_reader() -> None:
    """It is shared between calls."""
    with pytest.raises(ValueError, match="read-only"):
        epoch_order(10, 0, 0)[0] = 3
