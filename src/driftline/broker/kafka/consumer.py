"""What the two kinds of readers share: one librdkafka consumer, its look-ups, and the meaning of its messages."""

import logging
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from driftline.broker.kafka.errors import (
    AWAY,
    END_OF_PARTITION,
    LOST,
    MISSING,
    POLLED_TOO_LATE,
    Faults,
    translated,
    unreachable,
)
from driftline.broker.kafka.settings import KafkaSettings
from driftline.broker.port import Bounds, EndReached, Position, PositionLost, Record, Start, Tail
from driftline.errors import BrokerUnreachable, TopicMissing

_log = logging.getLogger(__name__)

SLICE_S = 0.1
"""Longest time inside librdkafka at once, so that Ctrl-C gets through."""


def wait_slice_s(deadline_s: float) -> float:
    """Seconds to spend in the next call into librdkafka: up to ``SLICE_S``, less near the deadline."""
    return max(0.0, min(SLICE_S, deadline_s - time.monotonic()))


def start_offset(position: Position, bounds: Bounds) -> int:
    """Offset that a position stands for in a partition with these bounds."""
    match position:
        case Start.BEGINNING:
            return bounds.begin
        case Start.END:
            return bounds.end
        case Tail(records):
            return max(bounds.begin, bounds.end - records)
        case offset:
            return offset


class Lookup:
    """Asks a consumer's broker about partitions, within a deadline."""

    def __init__(self, client: Consumer, settings: KafkaSettings, faults: Faults) -> None:
        self._client = client
        self._settings = settings
        self._faults = faults

    def bounds(self, topic: str, partition: int, timeout_s: float | None = None) -> Bounds:
        """Offsets of a partition.

        Raises:
            TopicMissing: no such topic or partition.
            BrokerUnreachable: no answer within ``timeout_s``, by default the request time-out.
        """
        timeout_s = self._settings.request_timeout_s if timeout_s is None else timeout_s
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                wanted = TopicPartition(topic, partition)
                begin, end = self._client.get_watermark_offsets(wanted, timeout=max(SLICE_S, wait_slice_s(deadline_s)))
                self._faults.worked()
                return Bounds(begin, end)
            except KafkaException as error:
                self._faults.check()
                self._retry_or_raise(error.args[0], topic, partition)
            if time.monotonic() >= deadline_s:
                raise unreachable(self._settings, timeout_s, self._faults.last_word)
            time.sleep(0.01)

    def exists(self, topic: str, partition: int = 0) -> bool:
        """Whether the cluster knows the partition; unknown counts as yes, for the caller tries again."""
        try:
            known = self._client.list_topics(topic, timeout=5 * SLICE_S).topics[topic]
        except KafkaException:
            return True
        return known.error is None and partition in known.partitions

    def _retry_or_raise(self, error: KafkaError, topic: str, partition: int) -> None:
        # A client may not have heard yet of a topic that was just made, so what it lacks is looked up once more.
        if error.code() in MISSING and not self.exists(topic, partition):
            raise TopicMissing(f"topic {topic} does not exist, or has no partition {partition}")
        if error.code() not in MISSING | AWAY and not error.retriable():
            raise translated(error, f"looking up the offsets of {topic}[{partition}]", self._settings)


class Inbox:
    """Gives a consumer's messages their meaning: a record, the end of a partition, or an error to raise."""

    def __init__(self, settings: KafkaSettings, faults: Faults, lookup: Lookup) -> None:
        self._settings = settings
        self._faults = faults
        self._lookup = lookup
        self._ends: dict[tuple[str, int], int] = {}

    def begin(self, topic: str, partition: int) -> None:
        """Note that a partition is read from a new position, so that its end counts as new."""
        self._ends.pop((topic, partition), None)

    def understand(self, message: Message) -> Record | EndReached | None:
        """Return what a message says, None if it is nothing to the caller.

        Raises:
            PositionLost: the reading position is not in the log.
            TopicMissing: the topic is gone.
            BrokerError: reading is not allowed, or failed for good.
        """
        error = message.error()
        topic, partition, offset = message.topic() or "", message.partition(), message.offset()
        if error is None and partition is not None and offset is not None:
            self._faults.worked()
            return Record(topic, partition, offset, message.key(), message.value(), message.timestamp()[1])
        if error is not None:
            if error.code() == END_OF_PARTITION and partition is not None and offset is not None:
                self._faults.worked()
                return self._end(topic, partition, offset)
            self._raise(error, topic, partition or 0, offset or 0)
        return None

    def _end(self, topic: str, partition: int, offset: int) -> EndReached | None:
        # A rebalance or a pause makes librdkafka fetch, and find the same end, again.
        if self._ends.get((topic, partition)) == offset:
            return None
        self._ends[topic, partition] = offset
        return EndReached(topic, partition, offset)

    def _raise(self, error: KafkaError, topic: str, partition: int, offset: int) -> None:
        if error.code() in LOST:
            raise PositionLost(topic, partition, offset, self._bounds(topic, partition))
        if error.code() in MISSING:
            if not self._lookup.exists(topic, max(0, partition)):
                raise TopicMissing(f"topic {topic} does not exist, or no longer")
        elif error.code() == POLLED_TOO_LATE:
            _log.warning(
                "a group reader was not polled for %g s and leaves its group", self._settings.max_poll_interval_s
            )
        elif error.code() not in AWAY and not error.retriable():
            raise translated(error, f"reading {topic or 'a topic'}", self._settings)
        _log.debug("reading %s: %s", topic, error.str())

    def _bounds(self, topic: str, partition: int) -> Bounds | None:
        # Only for the message: what the log does hold says how much was lost.
        try:
            return self._lookup.bounds(topic, partition, timeout_s=1.0)
        except (BrokerUnreachable, TopicMissing):
            return None
