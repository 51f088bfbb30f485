"""The Kafka ``GroupReader``."""

import logging
from collections.abc import Sequence
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, TopicPartition

from driftline.broker.guard import ClientGuard
from driftline.broker.kafka.closing import close_within
from driftline.broker.kafka.consumer import SLICE_S, Inbox, Lookup, StillThere, start_offset
from driftline.broker.kafka.deadline import Deadline
from driftline.broker.kafka.errors import Faults
from driftline.broker.kafka.ownership import Ownership
from driftline.broker.kafka.settings import KafkaSettings
from driftline.broker.kafka.standstill import Standstill
from driftline.broker.port import Assigned, EndReached, Record, Revoked, Start
from driftline.errors import BrokerUnreachable, TopicMissing

_log = logging.getLogger(__name__)

_LOOKUP_S, _LONGEST_S = 0.5, 4.0
"""Longest look-up between two polls, at first and at last; it is repeated until it succeeds, each time for longer: a
busy Kafka may take longer than the first one."""


class KafkaGroupReader:
    """A member of a consumer group, by the protocol that suits the brokers or was asked for.

    Which protocol suits is asked between polls, so the group is joined by the first poll that finds a broker.
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
        self._group, self._member = group, member
        self._lookup_s = _LOOKUP_S
        self._client: Consumer | None = None
        self._idle = Deadline(settings.idle_check_s)
        self._stand_still = Standstill(self._lookup, settings.idle_check_s)

    def poll(self, timeout_s: float) -> Record | EndReached | Assigned | Revoked | None:
        """See ``GroupReader.poll``."""
        self._guard.check()
        deadline = Deadline(timeout_s)
        while True:
            self._faults.check()
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
            self._stand_still.begin(self._ownership.topic, partition)
        if self._client is not None:
            self._client.resume(self._ownership.named(wanted))

    def seek(self, partition: int, offset: int) -> None:
        """See ``GroupReader.seek``."""
        self._guard.check()
        ownership, client = self._ownership, self._client
        if client is None or partition not in ownership.owned:
            return
        ownership.drop(partition)
        # Not librdkafka's own seek: that knows nothing of a partition whose position was lost.
        client.incremental_unassign(ownership.named([partition]))
        client.incremental_assign([TopicPartition(ownership.topic, partition, offset)])
        client.pause(ownership.named({partition} & ownership.paused))
        self._stand_still.at(ownership.topic, partition, offset)

    def close(self) -> None:
        """See ``GroupReader.close``."""
        if self._guard.close():
            close_within(self._leave, self._settings.close_timeout_s, "a Kafka group reader")
            self._lookup.close()

    def _join(self) -> Consumer | None:
        """Join the group; None while no broker says by which protocol."""
        try:
            protocol = self._lookup.protocol(self._lookup_s)
        except BrokerUnreachable:
            self._lookup_s = min(2 * self._lookup_s, _LONGEST_S)
            return None
        _log.debug("group %s: joining by the %s protocol", self._group, protocol)
        properties = self._settings.group(self._group, self._member, protocol)
        client = Consumer({**properties, "error_cb": self._faults.on_error})
        ownership = self._ownership
        client.subscribe(
            [ownership.topic],
            on_assign=ownership.on_assign,
            on_revoke=ownership.on_revoke,
            on_lost=ownership.on_lost,
        )
        return client

    def _leave(self) -> None:
        # Closing alone does not tell the group if this member owns nothing, and the others would wait for a ghost.
        if self._client is not None:
            with suppress(KafkaException):  # of a client that is broken for good, which its owner knows
                self._client.unsubscribe()
            self._client.close()

    def _next(self, client: Consumer, timeout_s: float) -> Record | EndReached | Assigned | Revoked | None:
        due = self._inbox.due()  # of the record before: nothing can have been taken away since
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
            found = None if message is None else self._inbox.understand(message)
        except StillThere as there:
            self._resume(client, there)
            return None
        if isinstance(found, Record):
            self._stand_still.at(found.topic, found.partition, found.offset + 1)
        return found

    def _check_reading(self, client: Consumer) -> None:
        """Read on where the reading of a partition has stood still although there is more."""
        ownership = self._ownership
        read = {(ownership.topic, partition) for partition in ownership.owned - ownership.paused}
        for stuck in self._stand_still.found(read):
            self._resume(client, stuck)

    def _resume(self, client: Consumer, there: StillThere) -> None:
        there.resume(client)
        client.pause(self._ownership.named({there.place.partition} & self._ownership.paused))

    def _check_topic(self) -> None:
        """Ask now and then whether the topic is there: with the newer protocol librdkafka does not say so."""
        if self._idle.passed():
            self._idle = Deadline(self._settings.idle_check_s)
            if self._lookup.missing([self._ownership.topic]):
                raise TopicMissing(f"topic {self._ownership.topic} does not exist, or no longer")

    def _place(self, client: Consumer) -> None:
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
        client.incremental_assign([TopicPartition(topic, *start) for start in starts.items()])
        for partition, offset in starts.items():
            self._inbox.begin(topic, partition, bounds[partition].end)
            self._stand_still.at(topic, partition, offset)
        self._ownership.place()
