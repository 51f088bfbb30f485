"""Time that a test advances by hand."""


class ManualClock:
    """A monotonic clock that moves only when a test advances it: ``MemoryBroker(clock.now_s)`` stamps records with it.

    Args:
        start_s: seconds that it shows at first.
    """

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s

    def now_s(self) -> float:
        """Return the start plus the seconds advanced so far."""
        return self._now_s

    def advance(self, duration_s: float) -> None:
        """Move forwards.

        Raises:
            ValueError: ``duration_s`` is negative.
        """
        if duration_s < 0:
            raise ValueError(f"a monotonic clock cannot go back by {-duration_s} s: give 0 or more")
        self._now_s += duration_s
