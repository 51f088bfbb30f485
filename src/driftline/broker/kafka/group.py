"""The Kafka ``GroupReader``."""

from collections.abc import Sequence

from confluent_kafka import Consumer, TopicPartition

from driftline.broker.guard import ClientGuard
from driftline.broker.kafka.closing import close_within
from driftline.broker.kafka.consumer import SLICE_S, Inbox, Lookup, StillThere, start_offset
from driftline.broker.kafka.deadline import Deadline
from driftline.broker.kafka.errors import Faults
from driftline.broker.kafka.ownership import Ownership
from driftline.broker.kafka.settings import KafkaSettings
from driftline.broker.port import Assigned, EndReached, Record, Revoked, Start
from driftline.errors import BrokerUnreachable

_LOOKUP_S = 0.5
"""Longest look-up between two polls; it is repeated until it succeeds."""


class KafkaGroupReader:
    """A member of a consumer group, with the classic protocol and cooperative rebalancing.

    librdkafka calls back about assignments from inside ``poll``, on the owner's thread, and may hand out a record in
    the same call: changes are returned first, the record is held until then.
    """

    def __init__(self, settings: KafkaSettings, topic: str, group: str, member: str, start: Start) -> None:
        self._settings = settings
        self._start = start
        self._faults = Faults(settings)
        self._guard = ClientGuard("group reader")
        self._ownership = Ownership(topic)
        self._lookup = Lookup(settings)
        self._inbox = Inbox(settings, self._faults, self._lookup, group)
        self._client = Consumer({**settings.group(group, member), "error_cb": self._faults.on_error})
        self._client.subscribe(
            [topic],
            on_assign=self._ownership.on_assign,
            on_revoke=self._ownership.on_revoke,
            on_lost=self._ownership.on_lost,
        )

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
        wanted = self._ownership.owned.intersection(partitions) - self._ownership.paused
        self._ownership.paused |= wanted
        self._client.pause(self._ownership.named(wanted))

    def resume(self, partitions: Sequence[int]) -> None:
        """See ``GroupReader.resume``."""
        self._guard.check()
        wanted = self._ownership.paused.intersection(partitions)
        self._ownership.paused -= wanted
        self._client.resume(self._ownership.named(wanted))

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
        due = self._inbox.due()  # of the record before: nothing can have been taken away since
        if due is not None:
            return due
        ownership = self._ownership
        self._place()
        if not ownership.changes and not ownership.deliverable():
            message = self._client.poll(timeout_s)
            if message is not None:
                ownership.hold(message)
            self._place()
        if ownership.changes:
            return ownership.changes.popleft()
        message = ownership.take()
        try:
            return None if message is None else self._inbox.understand(message)
        except StillThere as found:
            found.resume(self._client)
            self._client.pause(ownership.named({found.place.partition} & ownership.paused))
            return None

    def _place(self) -> None:
        """Begin to read the partitions that were given, at offsets looked up now, and say so.

        Not inside the callback, where a broker that is away would leave no way to try again. And with explicit offsets:
        librdkafka resolves "end" by a fetch some time later, and what is appended until then would never be read.
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
        self._client.incremental_assign([TopicPartition(topic, *start) for start in starts.items()])
        for partition in starts:
            self._inbox.begin(topic, partition, bounds[partition].end)
        self._ownership.place()
