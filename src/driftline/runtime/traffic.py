"""What passes through a process: records, bytes, failed sends, how long inputs take, and how long Kafka is silent."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from driftline.broker.port import Payload
from driftline.broker.topics import Stream
from driftline.schemas.effects import Input, Received, Timer
from driftline.telemetry.catalogue import BYTES, HANDLING, QUEUE, RECORDS, SEND_FAILURES
from driftline.telemetry.metrics import Sample, Summary

READ: Final = "read"
WRITTEN: Final = "written"

SAY_S: Final = 5.0
"""Seconds without an acknowledgement after which a log line says so, and least seconds between two such lines."""


class Traffic:
    """Counters of one shell, which belongs to one thread at a time.

    Attributes:
        failures: records that were not acknowledged in time, each time counted.
    """

    def __init__(self) -> None:
        self.failures = 0
        self._records: Counter[tuple[Stream, str]] = Counter()
        self._bytes: Counter[tuple[Stream, str]] = Counter()
        self._inputs: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}

    def count(self, stream: Stream, direction: str, value: Payload | None) -> None:
        """Count a record that was read or written."""
        self._records[stream, direction] += 1
        self._bytes[stream, direction] += 0 if value is None else len(value)

    def handled(self, event: Input, seconds: float) -> None:
        """Count an input and the time that it took, its effects included."""
        kind = _kind(event)
        self._inputs[kind] += 1
        self._seconds[kind] = self._seconds.get(kind, 0.0) + seconds

    def samples(self, queued: int) -> list[Sample]:
        """Return the metrics; ``queued`` records were read and not yet handled."""
        return [
            Sample(QUEUE, queued),
            Sample(SEND_FAILURES, self.failures),
            *(Sample(RECORDS, count, _labels(place)) for place, count in self._records.items()),
            *(Sample(BYTES, size, _labels(place)) for place, size in self._bytes.items()),
            *self._handling(),
        ]

    def _handling(self) -> Iterator[Sample]:
        for kind, count in self._inputs.items():
            yield Sample(HANDLING, Summary(count, self._seconds[kind]), {"input": kind})


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
        """All in-sync replicas hold a record. Return a line for the log if that ends a silence that was logged."""
        self.waiting -= 1
        silence_s, logged = self._silence_s(now_s), self._since_s is not None and self._next_s > self._since_s + SAY_S
        self._since_s = None
        if self.waiting:
            self._begin(topic, now_s)
        return f"Kafka acknowledges again, after {silence_s:.0f} s" if logged else ""

    def is_worth_a_line(self, now_s: float) -> bool:
        """Whether to log the silence now; less and less often, because it may last all night."""
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


def _kind(event: Input) -> str:
    match event:
        case Received():
            return event.stream.value
        case Timer():
            return "timer"
        case _:
            return "other"


def _labels(place: tuple[Stream, str]) -> dict[str, str]:
    return {"stream": place[0].value, "direction": place[1]}
