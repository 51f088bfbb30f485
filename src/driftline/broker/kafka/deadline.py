"""A point in time until which something may be waited for."""

import math
import time

_MS_PER_S = 1000


class Deadline:
    """``timeout_s`` seconds from now."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._end_s = time.monotonic() + timeout_s

    def passed(self) -> bool:
        """Whether it is over."""
        return time.monotonic() >= self._end_s

    def left_s(self, *, at_least: float = 0.0, at_most: float = float("inf")) -> float:
        """Seconds left, clipped to what the next call may take; whole milliseconds, rounded up.

        librdkafka takes whole milliseconds and the client cuts the rest off: with less than one left, every call would
        return at once, and the caller would spin until the time is over.
        """
        left_ms = math.ceil((self._end_s - time.monotonic()) * _MS_PER_S)
        # The half keeps the quotient from falling below the millisecond that it stands for.
        return max(at_least, min(at_most, (left_ms + 0.5) / _MS_PER_S if left_ms > 0 else 0.0))
