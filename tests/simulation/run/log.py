"""The five topics of the simulated run, and who watches what lands in them."""

from collections.abc import Callable
from dataclasses import dataclass

from driftline.broker.port import Position, Start, Tail
from driftline.broker.topics import Stream, run_topics, topic_name
from driftline.schemas.effects import Received, Send
from driftline.testing.memory import MemoryLog

Place = tuple[Stream, int]
"""A partition of a stream."""


@dataclass(frozen=True, slots=True)
class Landed:
    """A record that has just become part of the log. ``forged``: by no state machine of ours."""

    stream: Stream
    partition: int
    offset: int
    value: bytes | None
    forged: bool
    key: bytes | None = None


class RunLog:
    """The log of one run.

    Args:
        run: its name.
        partitions: of the sharded streams.
        watch: receives every record, before a reader can.
    """

    def __init__(self, run: str, partitions: int, watch: Callable[[Landed], None]) -> None:
        self._log = MemoryLog()
        self._names = {stream: topic_name(run, stream) for stream in Stream}
        self._watch = watch
        self._received: dict[tuple[Place, int], Received] = {}
        self._begins: dict[Place, int] = {}
        self.ends: dict[Place, int] = {}
        for spec in run_topics(run, partitions):
            self._log.create(spec)
        for stream, name in self._names.items():
            self.ends.update({(stream, partition): 0 for partition in range(self._log.topics()[name])})
        self._begins.update(self.ends)

    def append(self, send: Send, now_s: float, *, forged: bool = False) -> int:
        """Add a record at the end of its partition; return its offset."""
        value = send.value if send.value is None or isinstance(send.value, bytes) else send.value.tobytes()
        offset = self._log.append(
            self._names[send.stream], send.partition, value, key=send.key, timestamp_ms=round(now_s * 1000)
        )
        self.ends[send.stream, send.partition] = offset + 1
        self._watch(Landed(send.stream, send.partition, offset, value, forged, send.key))
        return offset

    def read(self, place: Place, offset: int) -> Received | None:
        """Return the first record at or behind ``offset``, the same object for every reader."""
        if offset == self.ends[place]:
            return None
        record = self._log.read(self._names[place[0]], place[1], offset)
        if record is None:
            return None
        received = self._received.get((place, record.offset))
        if received is None:
            received = Received(*place, record.offset, record.key, record.value, record.timestamp_ms)
            self._received[place, record.offset] = received
        return received

    def resolve(self, place: Place, position: Position) -> int:
        """Return the offset that a position means at this moment."""
        end = self.ends[place]
        match position:
            case Start.BEGINNING:
                return self.begin(place)
            case Start.END:
                return end
            case Tail(records):
                return max(self.begin(place), end - records)
            case offset:
                return offset

    def begin(self, place: Place) -> int:
        """Return the first offset that is kept."""
        return self._begins[place]

    def trim(self, place: Place, before: int) -> None:
        """Delete the records before an offset."""
        self._log.trim(self._names[place[0]], place[1], before)
        self._begins[place] = max(self._begins[place], before)

    def compact(self, stream: Stream) -> None:
        """Keep the last record of each key; tombstones go as well."""
        for place in self.ends:
            if place[0] is stream:
                self._log.compact(self._names[stream], place[1], drop_tombstones=True)
