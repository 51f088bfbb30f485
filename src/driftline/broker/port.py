"""The one seam to Kafka: what driftline needs from a log, and nothing else.

``testing.memory`` and ``broker.kafka`` implement it; ``tests/contract`` runs the same tests on both.

Threads: one owner thread for each ``Reader`` and ``GroupReader``; threads may share a ``Producer`` and an ``Admin``.
No client survives a fork: create clients in the process that uses them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from driftline.errors import BrokerError

Payload: TypeAlias = bytes | npt.NDArray[np.uint8]


MAX_RECORD_BYTES = 999_964
"""Key and value of one record together: the default limit of librdkafka, 1,000,000, less the 36 bytes that it counts
for the frame of a record. The default limit of Kafka's brokers is a little higher."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record as read from a partition."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    """Append time at the broker, milliseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class EndReached:
    """The reader is at the end of a partition; ``offset`` is the next one.

    Returned at the latest after all records that were there when reading began: a partition that always gets new
    records has no other end.
    """

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Assigned:
    """The group assigned these partitions, in addition to those owned before. Comes before any record of them."""

    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Revoked:
    """The group revoked these partitions; ``lost`` if another member may own them already."""

    partitions: tuple[int, ...]
    lost: bool = False


class Start(Enum):
    """Where to begin reading a partition when no offset is known."""

    BEGINNING = "beginning"
    END = "end"


@dataclass(frozen=True, slots=True)
class Tail:
    """Begin reading ``records`` offsets before the end, or at the beginning if the partition is shorter."""

    records: int


Position: TypeAlias = int | Start | Tail


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic to create. ``config`` holds topic-level settings; replication 0 means the broker's default."""

    name: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)
    replication: int = 0


@dataclass(frozen=True, slots=True)
class Bounds:
    """Offsets of a partition: ``begin`` is the first one kept, ``end`` the next to be written."""

    begin: int
    end: int


def _kept(position: int, bounds: Bounds | None) -> str:
    if bounds is None:
        return "it was deleted, or this is another log"
    kept = f"the log holds {bounds.begin} up to {bounds.end}"
    if position < bounds.begin:
        return f"{kept}, so {bounds.begin - position} offsets were deleted before they were read"
    return f"{kept}, so this is not the log in which that offset was seen"


class PositionLost(BrokerError):
    """A reading position is not in the log: the records there were deleted, or this is another log.

    The partition is not read any more; ``Reader.read`` starts it again from a position that the caller chooses.
    """

    def __init__(self, topic: str, partition: int, position: int, bounds: Bounds | None = None) -> None:
        self.topic = topic
        self.partition = partition
        self.position = position
        self.bounds = bounds
        super().__init__(f"{topic}[{partition}] has no offset {position}: {_kept(position, bounds)}")


OnDelivery: TypeAlias = Callable[[BrokerError | None], None]
"""Called once for each record, from ``send``, ``poll`` or ``flush``: with None when all in-sync replicas have
acknowledged it, else with the error."""


OnAppended: TypeAlias = Callable[[int], None]
"""Called with the record's offset when all in-sync replicas have acknowledged it, right after ``OnDelivery``."""


class Producer(Protocol):
    """Writes with ``acks=all`` and idempotence; order within a partition is the order of ``send``.

    A record is in the log once, with one exception: librdkafka loses count of its records on the way when too few
    replicas are in sync for longer than the delivery time-out. Then the client is replaced, the records fail, and a
    record that is sent again may be in the log twice.
    """

    def send(
        self,
        topic: str,
        partition: int,
        value: Payload | None,
        *,
        key: bytes | None = None,
        on_delivery: OnDelivery | None = None,
        on_appended: OnAppended | None = None,
    ) -> None:
        """Queue one record; the buffer is free to reuse on return. ``value`` None is a tombstone.

        Blocks while the bounded local queue is full.

        Raises:
            DeliveryFailed: the queue stayed full for the delivery time-out; the record was not queued.
            BrokerError: the record is larger than ``MAX_RECORD_BYTES``, or the client is broken for good (fatal
                error, refused credentials).
        """
        ...

    def poll(self, timeout_s: float = 0.0) -> int:
        """Call waiting delivery callbacks; return their number."""
        ...

    def flush(self, timeout_s: float) -> int:
        """Wait for all deliveries; return how many records are still undelivered after ``timeout_s``."""
        ...

    def close(self, timeout_s: float = 5.0) -> int:
        """Flush, then release the client; return how many records were not delivered. Idempotent."""
        ...


class Reader(Protocol):
    """Reads partitions that the caller names, from positions that the caller chooses."""

    def read(self, topic: str, partition: int, position: Position) -> int:
        """Start (or restart) reading a partition; return the offset of the start.

        Raises:
            TopicMissing: no such topic or partition.
            PositionLost: an offset that the partition does not hold.
            BrokerUnreachable: the position could not be looked up in time.
        """
        ...

    def stop(self, topic: str, partition: int) -> None:
        """Stop reading a partition; none of its records is returned any more."""
        ...

    def poll(self, timeout_s: float) -> Record | EndReached | None:
        """Return the next record, or ``EndReached`` each time the reader reaches the end of a partition.

        Raises:
            PositionLost: retention deleted the position. Other partitions are read on.
            TopicMissing: the topic was deleted.
            BrokerError: the client is broken for good. A broker that is away raises nothing: reading goes on when
                it is back.
        """
        ...

    def close(self) -> None:
        """Release the client. Idempotent."""
        ...


class GroupReader(Protocol):
    """Reads the partitions of one topic that a consumer group assigns.

    Commits no offsets: the start follows from the reader's own state, not from the group's.
    """

    def poll(self, timeout_s: float) -> Record | EndReached | Assigned | Revoked | None:
        """Return the next record or change of assignment, in the order in which they happened.

        Raises:
            TopicMissing: no such topic.
            PositionLost: as in ``Reader.poll``; the partition stays owned and unread until it is assigned again.
            BrokerError: the client is broken for good.
        """
        ...

    def pause(self, partitions: Sequence[int]) -> None:
        """Return no records of these partitions until ``resume``; the member stays in the group."""
        ...

    def resume(self, partitions: Sequence[int]) -> None:
        """Undo ``pause``."""
        ...

    def seek(self, partition: int, offset: int) -> None:
        """Read a partition on from ``offset``; does nothing if this member does not own it.

        Records fetched before are dropped. A partition whose position was lost is read again.
        """
        ...

    def close(self) -> None:
        """Leave the group and release the client. Idempotent."""
        ...


class Admin(Protocol):
    """Topics and offsets. Every call has a deadline and raises ``BrokerUnreachable`` when it passes."""

    def topics(self, names: Iterable[str] | None = None) -> Mapping[str, int]:
        """Return the number of partitions of every visible topic, or of those of ``names`` that exist.

        Raises:
            BrokerError: this client may not know whether a topic of ``names`` exists.
        """
        ...

    def configs(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the settings of each topic, defaults included.

        Raises:
            TopicMissing: no such topic.
            RightMissing: this client may not read them.
        """
        ...

    def create(self, specs: Sequence[TopicSpec]) -> None:
        """Create topics; one that exists with the same number of partitions is left as it is.

        Raises:
            BrokerError: a topic was refused, or exists with another number of partitions; names the topic.
        """
        ...

    def delete(self, names: Sequence[str]) -> None:
        """Delete topics; ignores those that do not exist."""
        ...

    def bounds(self, topic: str) -> Mapping[int, Bounds]:
        """Return the offsets of each partition.

        Raises:
            TopicMissing: no such topic.
        """
        ...

    def why_not_writable(self, topic: str) -> Sequence[str]:
        """Return why a topic takes no records, as far as known: one sentence a partition, empty if all take records.

        A partition takes none while it has no leader, or too few of its replicas are in sync.

        Raises:
            TopicMissing: no such topic.
        """
        ...

    def trim(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete the records of each partition before the offset given for it.

        Raises:
            TopicMissing: no such topic or partition.
            BrokerError: an offset is after the end.
        """
        ...

    def close(self) -> None:
        """Release the client. Idempotent."""
        ...


class Broker(Protocol):
    """Makes clients of one Kafka cluster (or of one in-memory log)."""

    def producer(self) -> Producer:
        """Return a new producer."""
        ...

    def reader(self) -> Reader:
        """Return a new reader."""
        ...

    def group_reader(self, topic: str, group: str, member: str, start: Start) -> GroupReader:
        """Return a new member, called ``member``, of consumer group ``group`` that reads ``topic``.

        Each partition is read from ``start``, looked up at each assignment **before** ``Assigned`` is returned: every
        record appended after the caller saw ``Assigned`` is read, also with ``Start.END``.
        """
        ...

    def admin(self) -> Admin:
        """Return a new admin client."""
        ...

    def check(self, timeout_s: float) -> None:
        """Ask for metadata once.

        Raises:
            BrokerUnreachable: no answer within ``timeout_s``; names the addresses tried.
        """
        ...
