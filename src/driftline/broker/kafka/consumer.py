"""What both kinds of readers share: questions about topics, and the meaning of librdkafka's messages."""

import logging
import time
from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from driftline.broker.kafka.admin import KafkaAdmin
from driftline.broker.kafka.deadline import Deadline
from driftline.broker.kafka.errors import (
    AWAY,
    BROKEN,
    END_OF_PARTITION,
    LOST,
    MISSING,
    POLLED_TOO_LATE,
    ClientErrors,
    Right,
    translate,
)
from driftline.broker.kafka.settings import AUTO, GroupProtocol, KafkaSettings, suitable_protocol
from driftline.broker.port import Bounds, EndReached, PositionLost, Record
from driftline.errors import BrokerUnreachable, RightMissing, TopicMissing

_log = logging.getLogger(__name__)

_GRACE_S = 0.5
"""Longest look-up between two polls, and longest time until a single node knows a new topic."""
_SPREAD_S = 5.0
"""Longest time until each of several nodes knows a new topic: any of them may be asked."""


def about_partition(message: Message) -> bool:
    """Whether a message is about the records of one partition; the others concern every reader."""
    error = message.error()
    return error is None or error.code() == END_OF_PARTITION or error.code() in LOST


class Lookup:
    """Asks about topics for a reader, on a connection of its own.

    A broker answers the requests of one connection in turn: on the reader's own connection each question would wait
    behind a fetch that waits for data.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._admin: KafkaAdmin | None = None

    def bounds(self, topic: str, timeout_s: float | None = None) -> Mapping[int, Bounds]:
        """Return the offsets of each partition.

        Raises:
            TopicMissing: no such topic.
            BrokerUnreachable: no answer within ``timeout_s``, by default the request time-out.
        """
        grace: Deadline | None = None
        while True:
            try:
                return self._client().bounds(topic, timeout_s)
            except TopicMissing:
                # A new topic may not have reached every node of the cluster.
                grace = grace or self._grace()
                if grace.passed():
                    raise
                time.sleep(_GRACE_S / 10)

    def _grace(self) -> Deadline:
        try:
            return Deadline(_GRACE_S if len(self._client().nodes(_GRACE_S)) == 1 else _SPREAD_S)
        except BrokerUnreachable:
            return Deadline(_SPREAD_S)

    def protocol(self, timeout_s: float) -> GroupProtocol:
        """Return the group protocol to use.

        Raises:
            BrokerUnreachable: no answer within ``timeout_s``.
        """
        if self._settings.group_protocol != AUTO:
            return GroupProtocol(self._settings.group_protocol)
        try:
            return suitable_protocol(self._client().node_settings(timeout_s), self._settings.session_timeout_s)
        except RightMissing:
            return suitable_protocol(None, self._settings.session_timeout_s)

    def missing(self, topics: Iterable[str]) -> list[str]:
        """Return the topics that do not exist; none if no broker answers, because then nothing is known."""
        wanted = set(topics)
        grace: Deadline | None = None
        while True:
            try:
                missing = sorted(wanted - self._client().topics(timeout_s=_GRACE_S).keys())
            except BrokerUnreachable:
                return []
            if not missing:
                return []
            grace = grace or self._grace()
            if grace.passed():
                return missing
            time.sleep(_GRACE_S / 10)

    def close(self) -> None:
        """Release the connection."""
        if self._admin is not None:
            self._admin.close()

    def _client(self) -> KafkaAdmin:
        if self._admin is None:
            self._admin = KafkaAdmin(self._settings)
        return self._admin


class PositionStillValid(Exception):
    """librdkafka gave up a position that the log still holds: read on from ``place``.

    An exception, because a call back into the reader would put its client into a reference cycle.
    """

    def __init__(self, place: TopicPartition) -> None:
        self.place = place
        super().__init__(f"{place.topic}[{place.partition}] still holds {place.offset}")

    def resume(self, client: Consumer) -> None:
        """Make the client read the partition on."""
        client.incremental_unassign([TopicPartition(self.place.topic, self.place.partition)])
        client.incremental_assign([self.place])


class MessageDecoder:
    """Turns a consumer's messages into records, ends of partitions, or errors."""

    def __init__(self, settings: KafkaSettings, errors: ClientErrors, lookup: Lookup, group: str | None) -> None:
        self._settings = settings
        self._group = group
        self._errors = errors
        self._lookup = lookup
        self._ends: dict[tuple[str, int], int] = {}
        self._goals: dict[tuple[str, int], int] = {}
        self._due: EndReached | None = None

    def begin(self, topic: str, partition: int, end: int) -> None:
        """Note that a partition, which now ends at ``end``, is read from a new position: its end is reported again."""
        self.forget(topic, partition)
        self._goals[topic, partition] = end

    def forget(self, topic: str, partition: int) -> None:
        """Note that a partition is no longer read."""
        self._ends.pop((topic, partition), None)
        self._goals.pop((topic, partition), None)
        if self._due is not None and (self._due.topic, self._due.partition) == (topic, partition):
            self._due = None

    def due(self) -> EndReached | None:
        """Return, once, the end that the last record reached.

        librdkafka reports an end only when a fetch comes back empty. A fetch waits for data, so on a partition that
        gets new records all the time this never happens.
        """
        due, self._due = self._due, None
        return due

    def decode(self, message: Message) -> Record | EndReached | None:
        """Return the meaning of a message; None if the caller need not know it.

        Raises:
            PositionStillValid: the reader must place the partition again; nothing is lost.
            PositionLost: the reading position is not in the log.
            TopicMissing: the topic is gone.
            BrokerError: reading is not allowed, or failed for good.
        """
        error = message.error()
        topic, partition, offset = message.topic() or "", message.partition(), message.offset()
        if error is None and partition is not None and offset is not None:
            self._errors.worked()
            if offset + 1 >= self._goals.get((topic, partition), offset + 2):
                self._due = self._end(topic, partition, offset + 1)
            return Record(topic, partition, offset, message.key(), message.value(), message.timestamp()[1])
        if error is not None:
            if error.code() == END_OF_PARTITION and partition is not None and offset is not None:
                self._errors.worked()
                return self._end(topic, partition, offset)
            self._raise(error, topic, partition or 0, offset or 0)
        return None

    def _end(self, topic: str, partition: int, offset: int) -> EndReached | None:
        # After a rebalance or a pause librdkafka fetches again and finds the same end.
        if self._ends.get((topic, partition)) == offset:
            return None
        self._ends[topic, partition] = offset
        self._goals.pop((topic, partition), None)
        return EndReached(topic, partition, offset)

    def _raise(self, error: KafkaError, topic: str, partition: int, offset: int) -> None:
        if error.code() in LOST:
            self._lost(topic, partition, offset)
        elif error.code() in MISSING:
            if self._lookup.missing([topic]):
                raise TopicMissing(f"topic {topic} does not exist, or was deleted")
        elif error.code() == POLLED_TOO_LATE:
            _log.warning(
                "a group reader was not polled for %g s and leaves its group", self._settings.max_poll_interval_s
            )
        elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            if self._group is not None:
                needs = Right("Read", "group", self._group)
                raise translate(error, f"joining group {self._group}", self._settings, needs)
            # A reader of named partitions joins no group, but librdkafka looks for a coordinator all the same.
        elif error.code() in BROKEN:
            self._errors.give_up(error)
            self._errors.check()
        elif error.code() not in AWAY and not error.retriable():
            raise translate(error, f"reading {topic}", self._settings, Right("Read", "topic", topic))
        _log.debug("reading %s: %s", topic, error.str())

    def _lost(self, topic: str, partition: int, offset: int) -> None:
        # librdkafka also gives up a position when a partition has no leader yet, or a new one. Reading goes on there
        # unless the log is known not to hold it; a deleted topic is detected elsewhere.
        bounds = self._bounds(topic, partition)
        if bounds is not None and not bounds.begin <= offset <= bounds.end:
            raise PositionLost(topic, partition, offset, bounds)
        raise PositionStillValid(TopicPartition(topic, partition, offset))

    def _bounds(self, topic: str, partition: int) -> Bounds | None:
        try:
            return self._lookup.bounds(topic, _GRACE_S).get(partition)
        except (BrokerUnreachable, TopicMissing):
            return None
