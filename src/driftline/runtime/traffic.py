"""What passes through a process: records, bytes, failed sends, and how long inputs take."""

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

    @property
    def written_bytes(self) -> int:
        """Bytes of all records that were handed to Kafka."""
        return sum(size for (_, direction), size in self._bytes.items() if direction == WRITTEN)

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
