"""The plain log: topics, partitions, records. No threads, no time, no clients.

The simulator uses it directly; ``MemoryBroker`` puts locks and clients around it. It keeps every record in memory until
the partition is trimmed or compacted.
"""

from bisect import bisect_left
from collections.abc import Mapping
from operator import attrgetter

from driftline.broker.clients import check_partitions
from driftline.broker.port import Bounds, PositionLost, Record, TopicSpec
from driftline.errors import BrokerError, TopicMissing

_offset = attrgetter("offset")


class _Partition:
    """Records in offset order, possibly with holes, and the bounds that readers see."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.begin = 0
        self.end = 0

    def index(self, offset: int) -> int:
        guess = offset - self.begin  # right unless there are holes
        if guess < len(self.records) and self.records[guess].offset == offset:
            return guess
        return bisect_left(self.records, offset, key=_offset)


class MemoryLog:
    """Append-only partitions that can be trimmed and compacted, with Kafka's offsets."""

    def __init__(self) -> None:
        self._topics: dict[str, list[_Partition]] = {}
        self._configs: dict[str, Mapping[str, str]] = {}

    def topics(self) -> Mapping[str, int]:
        """Return the number of partitions of each topic."""
        return {name: len(partitions) for name, partitions in self._topics.items()}

    def create(self, spec: TopicSpec) -> None:
        """Create a topic, or do nothing if it exists with as many partitions.

        Raises:
            BrokerError: it exists with another number of partitions.
        """
        existing = self._topics.get(spec.name)
        if existing is None:
            self._topics[spec.name] = [_Partition() for _ in range(spec.partitions)]
            self._configs[spec.name] = spec.config
        else:
            check_partitions(spec, len(existing))

    def config(self, name: str) -> Mapping[str, str]:
        """Return the settings that a topic was made with.

        Raises:
            TopicMissing: no such topic.
        """
        if name not in self._topics:
            raise TopicMissing(f"topic {name} does not exist")
        return self._configs[name]

    def delete(self, name: str) -> None:
        """Delete a topic; does nothing if it does not exist."""
        self._topics.pop(name, None)

    def append(
        self, topic: str, partition: int, value: bytes | None, *, key: bytes | None = None, timestamp_ms: int = 0
    ) -> int:
        """Add a record at the end and return its offset.

        Raises:
            TopicMissing: no such topic or partition.
        """
        log = self._partition(topic, partition)
        offset = log.end
        log.records.append(Record(topic, partition, offset, key, value, timestamp_ms))
        log.end = offset + 1
        return offset

    def read(self, topic: str, partition: int, offset: int) -> Record | None:
        """Return the first record at or after ``offset``, or None if there is none yet.

        Raises:
            TopicMissing: no such topic or partition.
            PositionLost: ``offset`` was trimmed away or lies beyond the end.
        """
        log = self._partition(topic, partition)
        if not log.begin <= offset <= log.end:
            raise PositionLost(topic, partition, offset, Bounds(log.begin, log.end))
        index = log.index(offset)
        return log.records[index] if index < len(log.records) else None

    def bounds(self, topic: str, partition: int) -> Bounds:
        """Return the offsets of a partition.

        Raises:
            TopicMissing: no such topic or partition.
        """
        log = self._partition(topic, partition)
        return Bounds(log.begin, log.end)

    def trim(self, topic: str, partition: int, offset: int) -> None:
        """Delete the records before ``offset``, as Kafka's DeleteRecords and retention do.

        Raises:
            TopicMissing: no such topic or partition.
            BrokerError: ``offset`` is beyond the end.
        """
        log = self._partition(topic, partition)
        if offset > log.end:
            raise BrokerError(f"{topic}[{partition}] cannot be trimmed to {offset}: it ends at {log.end}")
        if offset > log.begin:
            del log.records[: log.index(offset)]
            log.begin = offset

    def compact(self, topic: str, partition: int, *, drop_tombstones: bool = False) -> None:
        """Keep the last record of each key, as Kafka's cleaner does; offsets stay and get holes.

        Raises:
            TopicMissing: no such topic or partition.
        """
        log = self._partition(topic, partition)
        newest = {record.key: record.offset for record in log.records}
        log.records = [
            record
            for record in log.records
            if newest[record.key] == record.offset and not (drop_tombstones and record.value is None)
        ]

    def _partition(self, topic: str, partition: int) -> _Partition:
        partitions = self._topics.get(topic)
        if partitions is None:
            raise TopicMissing(f"topic {topic} does not exist")
        if not 0 <= partition < len(partitions):
            raise TopicMissing(f"topic {topic} has {len(partitions)} partitions, and no partition {partition}")
        return partitions[partition]
