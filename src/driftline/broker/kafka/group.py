"""The Kafka ``GroupReader``."""

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from driftline.broker.clients import ClientGuard, start_offset
from driftline.broker.kafka.consumer import Lookup, MessageDecoder, PositionStillValid, about_partition
from driftline.broker.kafka.deadline import SLICE_S, Deadline, close_within
from driftline.broker.kafka.errors import ClientErrors
from driftline.broker.kafka.settings import KafkaSettings
from driftline.broker.kafka.standstill import Standstill
from driftline.broker.port import Assigned, EndReached, Record, Revoked, Start
from driftline.errors import BrokerUnreachable, TopicMissing

_log = logging.getLogger(__name__)

_LOOKUP_S, _LONGEST_S = 0.5, 4.0
"""Shortest and longest look-up between two polls. It is repeated until it succeeds, each time for longer: a busy Kafka
may need more than the shortest."""


class KafkaGroupReader:
    """A member of a consumer group, with the configured protocol or the one that suits the brokers.

    The brokers are asked between polls, so the first poll that reaches a broker joins the group. librdkafka calls back
    about assignments inside ``poll``, on the owner's thread, and may return a record from the same call: changes are
    returned first, and the record is held until then.
    """

    def __init__(self, settings: KafkaSettings, topic: str, group: str, member: str, start: Start) -> None:
        self._settings = settings
        self._start = start
        self._errors = ClientErrors(settings)
        self._guard = ClientGuard("group reader")
        self._ownership = Ownership(topic)
        self._lookup = Lookup(settings)
        self._decoder = MessageDecoder(settings, self._errors, self._lookup, group)
        self._group, self._member = group, member
        self._lookup_s = _LOOKUP_S
        self._client: Consumer | None = None
        self._idle = Deadline(settings.idle_check_s)
        self._standstill = Standstill(self._lookup, settings.idle_check_s)

    def poll(self, timeout_s: float) -> Record | EndReached | Assigned | Revoked | None:
        """See ``GroupReader.poll``."""
        self._guard.check()
        deadline = Deadline(timeout_s)
        while True:
            self._errors.check()
            client = self._client = self._join() if self._client is None else self._client
            found = None if client is None else self._next(client, deadline.left_s(at_most=SLICE_S))
            if found is not None or deadline.passed():
                return found

    def pause(self, partitions: Sequence[int]) -> None:
        """See ``GroupReader.pause``."""
        self._guard.check()
        wanted = self._ownership.owned.intersection(partitions) - self._ownership.paused
        self._ownership.paused |= wanted
        if self._client is not None:
            self._client.pause(self._ownership.named(wanted))

    def resume(self, partitions: Sequence[int]) -> None:
        """See ``GroupReader.resume``."""
        self._guard.check()
        wanted = self._ownership.paused.intersection(partitions)
        self._ownership.paused -= wanted
        for partition in wanted:
            self._standstill.begin(self._ownership.topic, partition)
        if self._client is not None:
            self._client.resume(self._ownership.named(wanted))

    def seek(self, partition: int, offset: int) -> None:
        """See ``GroupReader.seek``."""
        self._guard.check()
        ownership, client = self._ownership, self._client
        if client is None or partition not in ownership.owned:
            return
        ownership.drop(partition)
        # Not librdkafka's own seek: it does not work on a partition whose position was lost.
        client.incremental_unassign(ownership.named([partition]))
        client.incremental_assign([TopicPartition(ownership.topic, partition, offset)])
        client.pause(ownership.named({partition} & ownership.paused))
        self._standstill.at(ownership.topic, partition, offset)

    def close(self) -> None:
        """See ``GroupReader.close``."""
        if self._guard.close():
            close_within(self._leave, self._settings.close_timeout_s, "a Kafka group reader")
            self._lookup.close()

    def _join(self) -> Consumer | None:
        """Join the group; None while no broker answers which protocol to use."""
        try:
            protocol = self._lookup.protocol(self._lookup_s)
        except BrokerUnreachable:
            self._lookup_s = min(2 * self._lookup_s, _LONGEST_S)
            return None
        _log.debug("group %s: joining by the %s protocol", self._group, protocol)
        properties = self._settings.group(self._group, self._member, protocol)
        client = Consumer({**properties, "error_cb": self._errors.on_error})
        ownership = self._ownership
        client.subscribe(
            [ownership.topic],
            on_assign=ownership.on_assign,
            on_revoke=ownership.on_revoke,
            on_lost=ownership.on_lost,
        )
        return client

    def _leave(self) -> None:
        # If this member owns nothing, closing alone does not tell the group, and the others would wait for it.
        if self._client is not None:
            with suppress(KafkaException):  # of a client that is broken for good: its owner got that error
                self._client.unsubscribe()
            self._client.close()

    def _next(self, client: Consumer, timeout_s: float) -> Record | EndReached | Assigned | Revoked | None:
        due = self._decoder.due()  # of the last record: no partition can have been revoked since
        if due is not None:
            return due
        ownership = self._ownership
        self._place(client)
        if not ownership.changes and not ownership.deliverable():
            message = client.poll(timeout_s)
            if message is None:
                self._check_topic()
                self._check_reading(client)
            else:
                self._idle = Deadline(self._settings.idle_check_s)
                ownership.hold(message)
            self._place(client)
        if ownership.changes:
            return ownership.changes.popleft()
        message = ownership.take()
        try:
            found = None if message is None else self._decoder.decode(message)
        except PositionStillValid as there:
            self._resume(client, there)
            return None
        if isinstance(found, Record):
            self._standstill.at(found.topic, found.partition, found.offset + 1)
        return found

    def _check_reading(self, client: Consumer) -> None:
        """Read on the partitions that stand still although there is more to read."""
        ownership = self._ownership
        read = {(ownership.topic, partition) for partition in ownership.owned - ownership.paused}
        for stuck in self._standstill.found(read):
            self._resume(client, stuck)

    def _resume(self, client: Consumer, there: PositionStillValid) -> None:
        there.resume(client)
        client.pause(self._ownership.named({there.place.partition} & self._ownership.paused))

    def _check_topic(self) -> None:
        """Ask from time to time whether the topic exists: with the consumer protocol librdkafka does not report it."""
        if self._idle.passed():
            self._idle = Deadline(self._settings.idle_check_s)
            if self._lookup.missing([self._ownership.topic]):
                raise TopicMissing(f"topic {self._ownership.topic} does not exist, or was deleted")

    def _place(self, client: Consumer) -> None:
        """Begin to read the newly assigned partitions, at offsets looked up now, and report the assignment.

        Not inside the callback: it could not try again when the broker is away. And with explicit offsets: librdkafka
        resolves "end" by a later fetch, and records appended until then would never be read.
        """
        topic, given = self._ownership.topic, self._ownership.given
        if not given:
            return
        try:
            bounds = self._lookup.bounds(topic, _LOOKUP_S)
        except BrokerUnreachable:
            return
        if not given <= bounds.keys():
            return
        starts = {partition: start_offset(self._start, bounds[partition]) for partition in given}
        client.incremental_assign([TopicPartition(topic, *start) for start in starts.items()])
        for partition, offset in starts.items():
            self._decoder.begin(topic, partition, bounds[partition].end)
            self._standstill.at(topic, partition, offset)
        self._ownership.place()


class Ownership:
    """The partitions that a member owns, changes that were not returned yet, and records that wait behind them.

    Separate from the reader: a client refers to this object, and this object to no client. The garbage collector would
    destroy a client in a reference cycle at any moment and on any thread.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.given: set[int] = set()
        """Assigned by the group, but not placed yet: the caller does not know them."""
        self.owned: set[int] = set()
        self.paused: set[int] = set()
        self.changes: deque[Assigned | Revoked] = deque()
        self._held: deque[Message] = deque()

    def place(self) -> None:
        """Own the assigned partitions."""
        self.changes.append(Assigned(tuple(sorted(self.given))))
        self.owned |= self.given
        self.given = set()

    def hold(self, message: Message) -> None:
        """Keep a message until earlier changes are returned; drop it if its partition is not owned."""
        if self._concerns_us(message):
            self._held.append(message)

    def deliverable(self) -> bool:
        """Whether ``take`` would return a message."""
        return any(each.partition() not in self.paused for each in self._held)

    def take(self) -> Message | None:
        """Remove and return the first held message whose partition is not paused."""
        for message in self._held:
            if message.partition() not in self.paused:
                self._held.remove(message)
                return message
        return None

    def drop(self, partition: int) -> None:
        """Drop the held messages of a partition that is read from another position now."""
        self._held = deque(each for each in self._held if each.partition() != partition)

    def named(self, partitions: Iterable[int]) -> list[TopicPartition]:
        """Return partitions in librdkafka's form."""
        return [TopicPartition(self.topic, partition) for partition in sorted(partitions)]

    def on_assign(self, client: Consumer, given: list[TopicPartition]) -> None:
        """Note newly assigned partitions; called inside ``Consumer.poll``."""
        # Assigning none acknowledges the assignment; otherwise librdkafka would start to read all of them.
        client.incremental_assign([])
        self.given.update(each.partition for each in given)

    def on_revoke(self, client: Consumer, taken: list[TopicPartition]) -> None:
        """Give up revoked partitions; called inside ``Consumer.poll``."""
        self._give_up(client, taken, lost=False)

    def on_lost(self, client: Consumer, taken: list[TopicPartition]) -> None:
        """Give up partitions that another member may already own; called inside ``Consumer.poll``."""
        self._give_up(client, taken, lost=True)

    def _give_up(self, client: Consumer, taken: list[TopicPartition], *, lost: bool) -> None:
        partitions = self.owned.intersection(each.partition for each in taken)
        client.incremental_unassign(self.named(partitions))
        self.given.difference_update(each.partition for each in taken)
        self.owned -= partitions
        self.paused -= partitions
        # At once: the partition may come back before the next poll, with another position.
        self._held = deque(each for each in self._held if self._concerns_us(each))
        if partitions:
            self.changes.append(Revoked(tuple(sorted(partitions)), lost=lost))

    def _concerns_us(self, message: Message) -> bool:
        return message.partition() in self.owned or not about_partition(message)
