"""The order in which samples are read: places in an epoch's order, as the ledger leases them, and batches of them.

In each epoch the samples are put in a new order, which is this and nothing else: ``numpy.argsort(keys,
kind="stable")``, with one raw 64-bit output of numpy's ``PCG64`` a sample as keys, seeded with ``stable_seed("data
order", seed, epoch)``. Who reads which places of it, the ledger says (`driftline.ledger.leases`).
"""

from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from driftline.schemas.records.sample_range import SampleRange, Samples, joined
from driftline.training.task.randomness import raw_keys

Indices: TypeAlias = npt.NDArray[np.int64]


@lru_cache(maxsize=2)  # the epoch that ends and the one that begins
def epoch_order(samples: int, seed: int, epoch: int) -> Indices:
    """Return the order of an epoch: a permutation of 0 … samples - 1, shape (samples,), int64, read-only."""
    order = np.argsort(raw_keys(samples, "data order", seed, epoch), kind="stable").astype(np.int64, copy=False)
    order.flags.writeable = False
    return order


class LeasedSamples:
    """Reads what is leased to one worker, batch by batch, oldest epoch first; no batch is of two epochs.

    Args:
        samples: of the whole data.
        seed: of the run.
        leased: what may be read.

    Attributes:
        read: what has been read by now.
    """

    def __init__(self, samples: int, seed: int, leased: Samples) -> None:
        self.read: Samples = ()
        self._samples = samples
        self._seed = seed
        self._left = list(leased)

    def batch(self, size: int) -> Indices:
        """Return the next samples, shape (n,), int64: at most ``size``, fewer where an epoch ends, none at the end."""
        found = take_batch(self._left, size)
        self.read = joined((*self.read, *found))
        if not found:
            return np.empty(0, np.int64)
        order = epoch_order(self._samples, self._seed, found[0].epoch)
        return np.concatenate([order[one.start : one.stop] for one in found])


def take_batch(left: list[SampleRange], size: int) -> list[SampleRange]:
    """Remove the samples of the next batch from what is left, and return them: at most ``size``, of one epoch."""
    found: list[SampleRange] = []
    while left and size > 0 and (not found or left[0].epoch == found[0].epoch):
        one = left.pop(0)
        taken = min(size, one.count)
        found.append(SampleRange(epoch=one.epoch, start=one.start, count=taken))
        if taken < one.count:
            left.insert(0, SampleRange(epoch=one.epoch, start=one.start + taken, count=one.count - taken))
        size -= taken
    return found
