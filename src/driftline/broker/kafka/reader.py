"""The Kafka ``Reader``."""

from confluent_kafka import Consumer, KafkaException, TopicPartition

from driftline.broker.clients import ClientGuard, start_offset
from driftline.broker.kafka.consumer import Lookup, MessageDecoder, PositionStillValid, about_partition
from driftline.broker.kafka.deadline import SLICE_S, Deadline, close_within
from driftline.broker.kafka.errors import ClientErrors, Right, translate
from driftline.broker.kafka.settings import KafkaSettings
from driftline.broker.kafka.standstill import Standstill
from driftline.broker.port import EndReached, Position, PositionLost, Record
from driftline.errors import BrokerError, TopicMissing


class KafkaReader:
    """Reads named partitions. Partitions are added and removed one by one, without disturbing the others."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._errors = ClientErrors(settings)
        self._guard = ClientGuard("reader")
        self._client = Consumer({**settings.consumer(), "error_cb": self._errors.on_error})
        self._lookup = Lookup(settings)
        self._decoder = MessageDecoder(settings, self._errors, self._lookup, group=None)
        self._reading: set[tuple[str, int]] = set()
        self._standstill = Standstill(self._lookup, settings.idle_check_s)
        self._idle = Deadline(settings.idle_check_s)

    def read(self, topic: str, partition: int, position: Position) -> int:
        """See ``Reader.read``."""
        self._guard.check()
        self._errors.check()
        bounds = self._lookup.bounds(topic).get(partition)
        if bounds is None:
            raise TopicMissing(f"topic {topic} has no partition {partition}")
        offset = start_offset(position, bounds)
        if not bounds.begin <= offset <= bounds.end:
            raise PositionLost(topic, partition, offset, bounds)
        self.stop(topic, partition)
        try:
            self._client.incremental_assign([TopicPartition(topic, partition, offset)])
        except KafkaException as error:
            needs = Right("Read", "topic", topic)
            raise translate(error.args[0], f"reading {topic}[{partition}]", self._settings, needs) from None
        self._decoder.begin(topic, partition, bounds.end)
        self._reading.add((topic, partition))
        self._standstill.at(topic, partition, offset)
        return offset

    def stop(self, topic: str, partition: int) -> None:
        """See ``Reader.stop``."""
        self._guard.check()
        if (topic, partition) in self._reading:
            self._reading.remove((topic, partition))
            self._decoder.forget(topic, partition)
            self._standstill.forget(topic, partition)
            self._client.incremental_unassign([TopicPartition(topic, partition)])

    def poll(self, timeout_s: float) -> Record | EndReached | None:
        """See ``Reader.poll``."""
        self._guard.check()
        deadline = Deadline(timeout_s)
        while True:
            self._errors.check()
            found = self._next(deadline.left_s(at_most=SLICE_S))
            if found is not None or deadline.passed():
                return found

    def close(self) -> None:
        """See ``Reader.close``."""
        if self._guard.close():
            close_within(self._client.close, self._settings.close_timeout_s, "a Kafka reader")
            self._lookup.close()

    def _next(self, timeout_s: float) -> Record | EndReached | None:
        due = self._decoder.due()
        if due is not None:
            return due
        message = self._client.poll(timeout_s)
        if message is None:
            self._check_topics()
            for stuck in self._standstill.found():
                stuck.resume(self._client)
            return None
        self._idle = Deadline(self._settings.idle_check_s)
        partition = (message.topic() or "", message.partition() or 0)
        # Records fetched before a partition was stopped may still come out of the local queue.
        if about_partition(message) and partition not in self._reading:
            return None
        try:
            return self._noted(self._decoder.decode(message))
        except PositionStillValid as found:
            found.resume(self._client)
            return None
        except BrokerError:
            self.stop(*partition)
            raise

    def _noted(self, found: Record | EndReached | None) -> Record | EndReached | None:
        """Note how far a partition has been read."""
        if isinstance(found, Record):
            self._standstill.at(found.topic, found.partition, found.offset + 1)
        return found

    def _check_topics(self) -> None:
        """Ask from time to time whether the topics still exist: librdkafka does not report a deleted one."""
        if not self._idle.passed():
            return
        missing = self._lookup.missing({topic for topic, _ in self._reading})
        self._idle = Deadline(self._settings.idle_check_s)
        for topic, partition in [each for each in self._reading if each[0] in missing]:
            self.stop(topic, partition)
        if missing:
            raise TopicMissing(f"topic {', '.join(missing)} does not exist any more")
