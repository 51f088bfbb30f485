"""Which batches a worker reads in one clock: a fixed number of them, or as many as fit into the time box."""

from collections.abc import Callable, Iterator

from driftline.schemas.run.local_work import LocalWork
from driftline.training.task.data import Indices, LeasedSamples


class OneClock:
    """The batches of one clock of one worker. The clock begins when this is made.

    Args:
        data: what the worker may read; at its end the clock has no more batches, however many it was to have.
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
        """Yield one batch after another; how long it took to deal with one decides whether there is another."""
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
        """Whether there is another batch: in a box, if one that takes as long as the last ends within it."""
        if not self._local.is_boxed:
            return count < self._local.steps
        is_enough = 1 < self._local.steps <= count
        return not is_enough and now_s - self._began_s + took_s <= self._local.clock_s
