"""What a worker reads in one clock: batches of the samples that are leased to it."""

from collections.abc import Callable, Iterator

import numpy as np

from driftline.schemas.records.sample_range import SampleRange, Samples, joined
from driftline.schemas.run.local_work import LocalWork
from driftline.training.worker.order import Indices, epoch_order


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


class ClockBatches:
    """The batches of one clock of one worker: a fixed number, or as many as fit into the time box.

    The time box begins when this is made.

    Args:
        data: what the worker may read; when it is used up the clock has no more batches.
        batch_size: samples of a batch.
        local: how many batches, or how many seconds, a clock has.
        monotonic: seconds of a clock that never goes back.
    """

    def __init__(self, data: LeasedSamples, batch_size: int, local: LocalWork, monotonic: Callable[[], float]) -> None:
        self._data = data
        self._batch_size = batch_size
        self._local = local
        self._monotonic = monotonic
        self._began_s = monotonic()

    def batches(self) -> Iterator[Indices]:
        """Yield one batch after another; how long the last one took decides whether there is another."""
        count = 0
        while True:
            from_s = self._monotonic()
            indices = self._data.batch(self._batch_size)
            if not len(indices):
                return
            yield indices
            count += 1
            now_s = self._monotonic()
            if not self._goes_on(count, now_s, took_s=now_s - from_s):
                return

    def _goes_on(self, count: int, now_s: float, took_s: float) -> bool:
        """Whether there is another batch: in a time box, if one that takes as long as the last ends within it."""
        if not self._local.is_boxed:
            return count < self._local.steps
        is_enough = 1 < self._local.steps <= count
        return not is_enough and now_s - self._began_s + took_s <= self._local.clock_s
