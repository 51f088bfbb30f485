"""Bounds on waiting: a deadline for calls into librdkafka, and for closing a client."""

import logging
import math
import threading
import time
from collections.abc import Callable

SLICE_S = 0.1
"""Longest time inside librdkafka at once, so that Ctrl-C gets through."""
_MS_PER_S = 1000

_log = logging.getLogger(__name__)


class Deadline:
    """``timeout_s`` seconds from now."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._end_s = time.monotonic() + timeout_s

    def passed(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() >= self._end_s

    def left_s(self, *, at_least: float = 0.0, at_most: float = float("inf")) -> float:
        """Seconds left, between ``at_least`` and ``at_most``; whole milliseconds, rounded up.

        librdkafka takes whole milliseconds and the Python client rounds down: with less than one left every call would
        return at once, and the caller would spin until the time is over.
        """
        left_ms = math.ceil((self._end_s - time.monotonic()) * _MS_PER_S)
        # The half keeps the quotient from being rounded below its own millisecond.
        return max(at_least, min(at_most, (left_ms + 0.5) / _MS_PER_S if left_ms > 0 else 0.0))


def close_within(close: Callable[[], object], timeout_s: float, what: str) -> bool:
    """Run ``close`` on a thread of its own and wait for it; False if it is still not done after ``timeout_s`` seconds.

    librdkafka's close takes no deadline. The thread is a daemon: one that never returns ends with the process.
    """
    thread = threading.Thread(target=_logged, args=(close, what), name=f"close {what}", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if thread.is_alive():
        _log.warning("%s did not close within %g s; it is abandoned", what, timeout_s)
    return not thread.is_alive()


def _logged(close: Callable[[], object], what: str) -> None:
    try:
        close()
    except Exception:  # noqa: BLE001 - logged, because no caller sees this thread's error
        _log.exception("closing %s failed", what)
