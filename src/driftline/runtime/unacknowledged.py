"""Since when Kafka has acknowledged nothing of what it was sent, and when that is worth a line. Knows no clock."""

SAY_S = 5.0
"""Seconds without an acknowledgement after which that is said, and again at least so many seconds later."""


class Unacknowledged:
    """Counts the records of one process that are on their way.

    Attributes:
        waiting: how many.
        topic: of the first record that was sent after the last acknowledgement.
    """

    def __init__(self) -> None:
        self.waiting = 0
        self.topic = ""
        self._since_s: float | None = None
        self._next_s = 0.0

    def sent(self, topic: str, now_s: float) -> None:
        """A record was handed to Kafka's client."""
        self.waiting += 1
        if self._since_s is None:
            self._begin(topic, now_s)

    def failed(self) -> None:
        """A record was given up, which is no answer: silence goes on."""
        self.waiting -= 1

    def acknowledged(self, topic: str, now_s: float) -> str:
        """All in-sync replicas hold a record. Return what to say if that ends a silence that was spoken of."""
        self.waiting -= 1
        silence_s, spoken = self._silence_s(now_s), self._since_s is not None and self._next_s > self._since_s + SAY_S
        self._since_s = None
        if self.waiting:
            self._begin(topic, now_s)
        return f"Kafka acknowledges again, after {silence_s:.0f} s" if spoken else ""

    def is_worth_a_line(self, now_s: float) -> bool:
        """Whether the silence is to be spoken of now; less and less often, for it may last all night."""
        if self._since_s is None or now_s < self._next_s:
            return False
        self._next_s = now_s + max(SAY_S, self._silence_s(now_s) / 10)
        return True

    def words(self, now_s: float) -> str:
        """Say how long it has lasted, and what waits; empty if it is over."""
        if self._since_s is None or self._silence_s(now_s) < SAY_S:
            return ""
        return (
            f"Kafka has acknowledged nothing for {self._silence_s(now_s):.0f} s, {self.waiting} records wait, and "
            f"everything goes on when it does"
        )

    def _begin(self, topic: str, now_s: float) -> None:
        self.topic, self._since_s, self._next_s = topic, now_s, now_s + SAY_S

    def _silence_s(self, now_s: float) -> float:
        return 0.0 if self._since_s is None else now_s - self._since_s
