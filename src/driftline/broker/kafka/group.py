"""The Kafka ``GroupReader``."""

import time
from collections import deque
from collections.abc import Sequence

from confluent_kafka import Consumer, Message, TopicPartition

from driftline.broker.guard import ClientGuard
from driftline.broker.kafka.closing import close_within
from driftline.broker.kafka.consumer import Inbox, Lookup, start_offset, wait_slice_s
from driftline.broker.kafka.errors import Faults
from driftline.broker.kafka.settings import KafkaSettings
from driftline.broker.port import Assigned, EndReached, Record, Revoked, Start


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
        self._lookup = Lookup(self._client, settings, self._faults)
        self._inbox = Inbox(settings, self._faults, self._lookup)
        self._changes: deque[Assigned | Revoked] = deque()
        self._held: deque[Message] = deque()
        self._owned: set[int] = set()
        self._paused: set[int] = set()
        self._client.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)

    def poll(self, timeout_s: float) -> Record | EndReached | Assigned | Revoked | None:
        """See ``GroupReader.poll``."""
        self._guard.check()
        deadline_s = time.monotonic() + timeout_s
        while True:
            self._faults.check()
            found = self._next(wait_slice_s(deadline_s))
            if found is not None or time.monotonic() >= deadline_s:
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
            close_within(self._client.close, self._settings.close_timeout_s, "a Kafka group reader")

    def _next(self, timeout_s: float) -> Record | EndReached | Assigned | Revoked | None:
        if not self._changes and not self._deliverable():
            message = self._client.poll(timeout_s)
            if message is not None:
                self._held.append(message)
        if self._changes:
            return self._changes.popleft()
        message = self._deliverable()
        if message is None:
            return None
        self._held.remove(message)
        return self._inbox.understand(message)

    def _deliverable(self) -> Message | None:
        """First held message that may be returned; those of partitions that were taken away are dropped."""
        self._held = deque(each for each in self._held if self._concerns_us(each))
        return next((each for each in self._held if each.partition() not in self._paused), None)

    def _concerns_us(self, message: Message) -> bool:
        error = message.error()
        about_group = error is not None and (message.partition() or 0) < 0
        return about_group or message.partition() in self._owned

    def _on_assign(self, client: Consumer, given: list[TopicPartition]) -> None:
        starts = [TopicPartition(self._topic, each.partition, self._start_of(each.partition)) for each in given]
        client.incremental_assign(starts)
        for each in given:
            self._inbox.begin(self._topic, each.partition)
        self._owned.update(each.partition for each in given)
        if given:
            self._changes.append(Assigned(tuple(sorted(each.partition for each in given))))

    def _on_revoke(self, client: Consumer, taken: list[TopicPartition]) -> None:
        self._give_up(client, taken, lost=False)

    def _on_lost(self, client: Consumer, taken: list[TopicPartition]) -> None:
        self._give_up(client, taken, lost=True)

    def _give_up(self, client: Consumer, taken: list[TopicPartition], *, lost: bool) -> None:
        client.incremental_unassign(taken)
        partitions = {each.partition for each in taken}
        self._owned -= partitions
        self._paused -= partitions
        if partitions:
            self._changes.append(Revoked(tuple(sorted(partitions)), lost=lost))

    def _start_of(self, partition: int) -> int:
        # An explicit offset, looked up now: "end" would be resolved by a fetch some time after Assigned was returned,
        # and what is appended in between would never be read.
        return start_offset(self._start, self._lookup.bounds(self._topic, partition))

    def _named(self, partitions: set[int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, partition) for partition in sorted(partitions)]
