"""How much of its time a worker waits, for people: it decides nothing."""

import time
from collections.abc import Callable
from types import TracebackType


class WaitShare:
    """A context manager around every wait of a worker.

    The time begins when its first wait is over: before that the run had not started, or the worker was no member, and
    how long others took for that says nothing about the pace of training.

    Args:
        monotonic: seconds of a clock that never goes back.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._began_s: float | None = None
        self._from_s = 0.0
        self._waited_s = 0.0

    def __enter__(self) -> None:
        self._from_s = self._monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        now_s = self._monotonic()
        if self._began_s is None:
            self._began_s = now_s
        else:
            self._waited_s += now_s - self._from_s

    @property
    def share(self) -> float:
        """Share of the time so far, from 0 to 1; 0 while there is none."""
        so_far_s = 0.0 if self._began_s is None else self._monotonic() - self._began_s
        return self._waited_s / so_far_s if so_far_s > 0 else 0.0
