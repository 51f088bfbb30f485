"""The one seam to Kafka: what driftline needs from a log, and nothing else.

``broker.memory`` and ``broker.kafka`` implement it; ``tests/contract`` holds both to the same suite.

Threads: one owner thread for each ``Reader`` and ``GroupReader``; a ``Producer`` and an ``Admin`` may be shared.
Nothing here survives a fork: create clients in the process that uses them.
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
"""Key and value of one record together. The default limit of librdkafka, 1,000,000, less the 36 bytes that it counts
for the frame of a record; the default limit of Kafka's brokers is a little higher."""


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
    """The reader stands at the end of a partition; ``offset`` is the next one to come.

    Told at the latest when everything has been returned that was there when reading began: a partition that never rests
    has no other end.
    """

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Assigned:
    """The group gave these partitions, in addition to those owned before. Comes before any record of them."""

    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Revoked:
    """The group took these partitions away; ``lost`` when it did so without asking."""

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
    """Offsets of a partition: ``begin`` is the first kept, ``end`` the next to be written."""

    begin: int
    end: int


def _kept(position: int, bounds: Bounds | None) -> str:
    if bounds is None:
        return "it was deleted, or the log is another one"
    kept = f"the log holds {bounds.begin} up to {bounds.end}"
    if position < bounds.begin:
        return f"{kept}, so {bounds.begin - position} offsets were deleted before they were read"
    return f"{kept}, so it is not the log in which that offset was seen"


class PositionLost(BrokerError):
    """A reading position is not in the log: what stood there was deleted, or this is another log.

    The partition is no longer read; ``Reader.read`` starts it again from a position of the caller's choice.
    """

    def __init__(self, topic: str, partition: int, position: int, bounds: Bounds | None = None) -> None:
        self.topic = topic
        self.partition = partition
        self.position = position
        self.bounds = bounds
        super().__init__(f"{topic}[{partition}] has no offset {position}: {_kept(position, bounds)}")


OnDelivery: TypeAlias = Callable[[BrokerError | None], None]
"""Called once a record, from ``send``, ``poll`` or ``flush``: None when acknowledged by all in-sync replicas."""


OnAppended: TypeAlias = Callable[[int], None]
"""Called with the record's offset when all in-sync replicas have acknowledged it, where ``OnDelivery`` is called."""


class Producer(Protocol):
    """Writes with ``acks=all`` and idempotence; order within a partition is the order of ``send``.

    A record is in the log once, unless the client loses count of what was under way, as librdkafka's does when replicas
    are too few for longer than a delivery may take: then it is replaced, and what was not acknowledged is sent again.
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
            DeliveryFailed: the queue stayed full for the delivery time-out; nothing was queued.
            BrokerError: the record is larger than ``MAX_RECORD_BYTES``, or the client is broken for good (fatal
                error, refused credentials).
        """
        ...

    def poll(self, timeout_s: float = 0.0) -> int:
        """Serve delivery callbacks; returns how many were served."""
        ...

    def flush(self, timeout_s: float) -> int:
        """Wait for all deliveries; returns how many records are still undelivered at the deadline."""
        ...

    def close(self, timeout_s: float = 5.0) -> int:
        """Flush, then release the client; returns how many records were not delivered. Idempotent."""
        ...


class Reader(Protocol):
    """Reads partitions that the caller names, from positions that the caller knows."""

    def read(self, topic: str, partition: int, position: Position) -> int:
        """Start (or restart) reading a partition; returns the offset it starts at.

        Raises:
            TopicMissing: no such topic or partition.
            PositionLost: an offset that the partition does not hold.
            BrokerUnreachable: the position could not be looked up in time.
        """
        ...

    def stop(self, topic: str, partition: int) -> None:
        """Stop reading a partition; nothing of it is returned afterwards."""
        ...

    def poll(self, timeout_s: float) -> Record | EndReached | None:
        """Return the next record, or ``EndReached`` each time that a partition's end is newly reached.

        Raises:
            PositionLost: the position fell out of retention. Other partitions are read on.
            TopicMissing: the topic was deleted.
            BrokerError: the client is broken for good. A broker that is merely away raises nothing: reading goes on
                when it is back.
        """
        ...

    def close(self) -> None:
        """Release the client. Idempotent."""
        ...


class GroupReader(Protocol):
    """Reads the partitions of one topic that a consumer group hands out.

    Offsets are never committed: where to begin follows from the reader's own state, not from the group's.
    """

    def poll(self, timeout_s: float) -> Record | EndReached | Assigned | Revoked | None:
        """Return the next record or change of assignment, in the order in which they hold.

        Raises:
            TopicMissing: no such topic.
            PositionLost: as for ``Reader.poll``; the partition stays owned, unread, until it is assigned anew.
            BrokerError: the client is broken for good.
        """
        ...

    def pause(self, partitions: Sequence[int]) -> None:
        """Return no more records of these partitions until ``resume``; membership is kept alive."""
        ...

    def resume(self, partitions: Sequence[int]) -> None:
        """Undo ``pause``."""
        ...

    def seek(self, partition: int, offset: int) -> None:
        """Read a partition that this member owns on from an offset; one that it does not own is left alone.

        What was fetched of it before is not returned any more. A partition whose position was lost is read again.
        """
        ...

    def close(self) -> None:
        """Leave the group and release the client. Idempotent."""
        ...


class Admin(Protocol):
    """Topics and offsets. Every call has a deadline and raises ``BrokerUnreachable`` when it passes."""

    def topics(self, names: Iterable[str] | None = None) -> Mapping[str, int]:
        """Name to number of partitions, of every topic that this client may see, or of those of ``names`` that exist.

        Raises:
            BrokerError: whether a topic of ``names`` exists must not be known to this client.
        """
        ...

    def configs(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """Topic to its settings by name, those that it has by default included.

        Raises:
            TopicMissing: no such topic.
            RightMissing: this client may not read them.
        """
        ...

    def create(self, specs: Sequence[TopicSpec]) -> None:
        """Create topics; one that exists already with the same number of partitions is fine.

        Raises:
            BrokerError: a topic was refused, or exists with another number of partitions; names the topic.
        """
        ...

    def delete(self, names: Sequence[str]) -> None:
        """Delete topics; one that is not there is fine."""
        ...

    def bounds(self, topic: str) -> Mapping[int, Bounds]:
        """Partition to its offsets.

        Raises:
            TopicMissing: no such topic.
        """
        ...

    def why_not_writable(self, topic: str) -> Sequence[str]:
        """Return what keeps a topic from taking records, as far as it is known; empty if nothing does.

        Partitions that nobody leads, and those of which too few copies are in sync.

        Raises:
            TopicMissing: no such topic.
        """
        ...

    def trim(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete the records of each partition before the offset given for it.

        Raises:
            TopicMissing: no such topic or partition.
            BrokerError: an offset is beyond the end.
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

        Each partition is read from ``start``, looked up anew at each assignment and **before** ``Assigned`` is
        returned: whatever is appended after the caller saw ``Assigned`` will be read, also with ``Start.END``.
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
