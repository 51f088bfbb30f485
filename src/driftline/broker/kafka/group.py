"""The Kafka ``GroupReader``."""

from collections import deque
from collections.abc import Sequence

from confluent_kafka import Consumer, Message, TopicPartition

from driftline.broker.guard import ClientGuard
from driftline.broker.kafka.closing import close_within
from driftline.broker.kafka.consumer import SLICE_S, Inbox, Lookup, start_offset
from driftline.broker.kafka.deadline import Deadline
from driftline.broker.kafka.errors import Faults
from driftline.broker.kafka.settings import KafkaSettings
from driftline.broker.port import Assigned, EndReached, Record, Revoked, Start
from driftline.errors import BrokerUnreachable

_LOOKUP_S = 0.5
"""Longest look-up between two polls; it is repeated until it succeeds."""


class KafkaGroupReader:
    """A member of a consumer group, with the classic protocol and cooperative rebalancing.

    librdkafka calls back about assignments from inside ``poll``, on the owner's thread, and may hand out a record in
    the same call: changes are queued and returned first, the record waits in ``_held``.
    """

    def __init__(self, settings: KafkaSettings, topic: str, group: str, member: str, start: Start) -> None:
        self._settings = settings
        self._topic = topic
        self._start = start
        self._faults = Faults(settings)
        self._guard = ClientGuard("group reader")
        self._client = Consumer({**settings.group(group, member), "error_cb": self._faults.on_error})
        self._lookup = Lookup(settings)
        self._inbox = Inbox(settings, self._faults, self._lookup)
        self._changes: deque[Assigned | Revoked] = deque()
        self._held: deque[Message] = deque()
        self._given: set[int] = set()
        """Given by the group, but not yet placed: the caller has not heard of them."""
        self._owned: set[int] = set()
        self._paused: set[int] = set()
        self._client.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)

    def poll(self, timeout_s: float) -> Record | EndReached | Assigned | Revoked | None:
        """See ``GroupReader.poll``."""
        self._guard.check()
        deadline = Deadline(timeout_s)
        while True:
            self._faults.check()
            found = self._next(deadline.left_s(at_most=SLICE_S))
            if found is not None or deadline.passed():
                return found

    def pause(self, partitions: Sequence[int]) -> None:
        """See ``GroupReader.pause``."""
        self._guard.check()
        wanted = self._owned.intersection(partitions) - self._paused
        self._paused |= wanted
        self._client.pause(self._named(wanted))

    def resume(self, partitions: Sequence[int]) -> None:
        """See ``GroupReader.resume``."""
        self._guard.check()
        wanted = self._paused.intersection(partitions)
        self._paused -= wanted
        self._client.resume(self._named(wanted))

    def close(self) -> None:
        """See ``GroupReader.close``."""
        if self._guard.close():
            close_within(self._leave, self._settings.close_timeout_s, "a Kafka group reader")
            self._lookup.close()

    def _leave(self) -> None:
        # Closing alone does not tell the group if this member owns nothing, and the others would wait for a ghost.
        self._client.unsubscribe()
        self._client.close()

    def _next(self, timeout_s: float) -> Record | EndReached | Assigned | Revoked | None:
        self._place()
        if not self._changes and not self._deliverable():
            message = self._client.poll(timeout_s)
            if message is not None and self._concerns_us(message):
                self._held.append(message)
            self._place()
        if self._changes:
            return self._changes.popleft()
        message = self._deliverable()
        if message is None:
            return None
        self._held.remove(message)
        return self._inbox.understand(message)

    def _deliverable(self) -> Message | None:
        """First held message that may be returned."""
        return next((each for each in self._held if each.partition() not in self._paused), None)

    def _concerns_us(self, message: Message) -> bool:
        return message.partition() in self._owned or not self._inbox.about_partition(message)

    def _place(self) -> None:
        """Begin to read the partitions that were given, at offsets looked up now, and say so.

        Not inside the callback, where a broker that is away would leave no way to try again. And with explicit offsets:
        librdkafka resolves "end" by a fetch some time later, and what is appended until then would never be read.
        """
        if not self._given:
            return
        try:
            bounds = self._lookup.bounds(self._topic, _LOOKUP_S)
        except BrokerUnreachable:
            return
        if not self._given <= bounds.keys():
            return
        given, self._given = self._given, set()
        starts = {partition: start_offset(self._start, bounds[partition]) for partition in sorted(given)}
        self._client.incremental_assign([TopicPartition(self._topic, *start) for start in starts.items()])
        for partition in starts:
            self._inbox.begin(self._topic, partition)
        self._owned |= given
        self._changes.append(Assigned(tuple(starts)))

    def _on_assign(self, client: Consumer, given: list[TopicPartition]) -> None:
        # Taking none acknowledges the assignment, without which librdkafka would start them all by itself.
        client.incremental_assign([])
        self._given.update(each.partition for each in given)

    def _on_revoke(self, client: Consumer, taken: list[TopicPartition]) -> None:
        self._give_up(client, taken, lost=False)

    def _on_lost(self, client: Consumer, taken: list[TopicPartition]) -> None:
        self._give_up(client, taken, lost=True)

    def _give_up(self, client: Consumer, taken: list[TopicPartition], *, lost: bool) -> None:
        partitions = self._owned.intersection(each.partition for each in taken)
        client.incremental_unassign(self._named(partitions))
        self._given.difference_update(each.partition for each in taken)
        self._owned -= partitions
        # At once: the partition may come back before the next poll, and then from another position.
        self._held = deque(each for each in self._held if self._concerns_us(each))
        self._paused -= partitions
        if partitions:
            self._changes.append(Revoked(tuple(sorted(partitions)), lost=lost))

    def _named(self, partitions: set[int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, partition) for partition in sorted(partitions)]
