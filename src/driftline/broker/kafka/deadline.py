"""A point in time until which something may be waited for."""

import time


class Deadline:
    """``timeout_s`` seconds from now."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._end_s = time.monotonic() + timeout_s

    def passed(self) -> bool:
        """Whether it is over."""
        return time.monotonic() >= self._end_s

    def left_s(self, *, at_least: float = 0.0, at_most: float = float("inf")) -> float:
        """Seconds left, clipped to what the next call may take."""
        return max(at_least, min(at_most, self._end_s - time.monotonic()))
