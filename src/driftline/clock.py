"""Time, as something that is handed in.

State machines never read a clock: the shell that drives them passes ``now_s``. Only differences of a monotonic clock
are used, so a step of the wall clock, forwards or backwards, evicts nobody.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock."""

    def now_s(self) -> float:
        """Seconds since an arbitrary start; never goes backwards."""
        ...

    def sleep(self, duration_s: float) -> None:
        """Return after ``duration_s`` seconds of this clock."""
        ...


class SystemClock:
    """The machine's monotonic clock."""

    def now_s(self) -> float:
        """Seconds of ``time.monotonic``."""
        return time.monotonic()

    def sleep(self, duration_s: float) -> None:
        """Sleep for real."""
        time.sleep(duration_s)


class ManualClock:
    """A clock that a test or the simulation advances by hand."""

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s

    def now_s(self) -> float:
        """Seconds advanced so far, plus the start."""
        return self._now_s

    def sleep(self, duration_s: float) -> None:
        """Advance at once."""
        self.advance(duration_s)

    def advance(self, duration_s: float) -> None:
        """Move forwards.

        Raises:
            ValueError: ``duration_s`` is negative.
        """
        if duration_s < 0:
            raise ValueError(f"a monotonic clock cannot go back by {-duration_s} s")
        self._now_s += duration_s
