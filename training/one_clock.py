"""Which batches a worker reads in one clock: a fixed number of them, or as many as fit into the time box."""

from collections.abc import Callable, Iterator

from driftline.schemas.local_work import LocalWork
from driftline.training.data import DataPlan, Indices


class OneClock:
    """The batches of one clock of one worker. The clock begins when this is made.

    Args:
        plan: how the data is dealt out.
        rank: of the worker's part.
        cursor: how many batches of the part have been read before.
        local: how many batches, or how many seconds, a clock has.
        monotonic: seconds of a clock that never goes back.

    Attributes:
        cursor: how many have been read by now, those included at whose place the part had no samples.
    """

    def __init__(
        self, plan: DataPlan, rank: int, cursor: int, local: LocalWork, monotonic: Callable[[], float]
    ) -> None:
        self.cursor = cursor
        self._plan = plan
        self._rank = rank
        self._local = local
        self._monotonic = monotonic
        self._began_s = monotonic()
        self._stop = cursor + local.steps

    def batches(self) -> Iterator[Indices]:
        """Yield one batch after another; how long it took to deal with one decides whether there is another."""
        count = 0
        while True:
            from_s = self._monotonic()
            indices = self._next()
            if indices is None:
                return
            yield indices
            count += 1
            now_s = self._monotonic()
            if self._local.is_boxed and not self._fits(count, now_s, took_s=now_s - from_s):
                return

    def _next(self) -> Indices | None:
        """Return the next samples, past places where the part has none; a part without any in an epoch has none."""
        stop = self.cursor + self._plan.batches_per_epoch if self._local.is_boxed else self._stop
        while self.cursor < stop:
            indices = self._plan.batch(self._rank, self.cursor).indices
            self.cursor += 1
            if len(indices):
                return indices
        return None

    def _fits(self, count: int, now_s: float, took_s: float) -> bool:
        """Whether another batch that takes as long as the last one ends within the box."""
        if 1 < self._local.steps <= count:
            return False
        return now_s - self._began_s + took_s <= self._local.clock_s
