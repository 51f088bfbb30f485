"""The Kafka ``Producer``."""

import logging
import threading
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as Client

from driftline.broker.clients import Callbacks, ClientGuard, check_payload
from driftline.broker.kafka.deadline import SLICE_S, Deadline, close_within
from driftline.broker.kafka.errors import ClientErrors, Right, delivery_error, translate
from driftline.broker.kafka.settings import KafkaSettings
from driftline.broker.port import OnAppended, OnDelivery, Payload
from driftline.errors import BrokerError, DeliveryFailed

_log = logging.getLogger(__name__)


class KafkaProducer:
    """Writes with idempotence. Threads may share it; callbacks run on a thread that calls one of its methods.

    A record that fails leaves a gap, never a change of order: the records behind it are still written.

    When too few replicas are in sync for longer than the delivery time-out, librdkafka gives up records that may have
    arrived in part; it has then lost count of its sequence and refuses to write. A new client takes its place, and the
    records on their way fail.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._errors = ClientErrors(settings, renews=True)
        self._guard = ClientGuard("producer")
        self._callbacks = Callbacks()
        self._renewing = threading.Lock()
        self._client = self._new_client()

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
        """See ``Producer.send``."""
        self._guard.check()
        check_payload(topic, partition, key, value)
        report = self._reporter(topic, partition, on_delivery, on_appended)
        deadline = Deadline(self._settings.delivery_timeout_s)
        while True:
            self._errors.check()
            self._renew()
            try:
                # librdkafka copies an array of uint8 itself; the type stub knows only bytes.
                self._client.produce(topic, value, key, partition, report)  # type: ignore[arg-type]
                break
            except BufferError:
                if deadline.passed():
                    raise self._full(topic, partition) from None
                # Back-pressure: wait until a delivery makes room, never drop a record.
                self._poll(SLICE_S)
            except KafkaException as error:
                if self._has_lost_count():
                    continue
                what, needs = f"writing to {topic}[{partition}]", Right("Write", "topic", topic)
                raise translate(error.args[0], what, self._settings, needs) from None
        self._poll(0.0)

    def poll(self, timeout_s: float = 0.0) -> int:
        """See ``Producer.poll``."""
        self._guard.check()
        self._errors.check()
        self._renew()
        deadline = Deadline(timeout_s)
        while True:
            served = self._poll(deadline.left_s(at_most=SLICE_S))
            if served or deadline.passed():
                return served

    def flush(self, timeout_s: float) -> int:
        """See ``Producer.flush``."""
        self._guard.check()
        return self._flush(timeout_s)

    def close(self, timeout_s: float = 5.0) -> int:
        """See ``Producer.close``."""
        if not self._guard.close():
            return 0
        undelivered_records = self._flush(timeout_s)
        if undelivered_records:
            # The rest fails now, with its callbacks, instead of never.
            self._client.purge()
            self._poll(0.0)
        close_within(self._client.close, self._settings.close_timeout_s, "a Kafka producer")
        return undelivered_records

    def _new_client(self) -> Client:
        return Client({**self._settings.producer(), "error_cb": self._errors.on_error})

    def _has_lost_count(self) -> bool:
        """Whether the client has lost count of its sequence; lets it call back first."""
        self._serve(self._client, 0.0)
        return bool(self._errors.lost_count)

    def _serve(self, client: Client, timeout_s: float) -> None:
        """Let a client call back; it may also report here that it has lost count."""
        try:
            client.poll(timeout_s)
        except KafkaException as error:
            self._errors.on_error(error.args[0])

    def _renew(self) -> None:
        """Replace a client that has lost count; records on their way fail, because their fate is unknown."""
        with self._renewing:
            if not self._errors.lost_count:
                return
            _log.warning(
                "a Kafka producer is replaced, and the records on their way are sent again: %s", self._errors.lost_count
            )
            old, self._client = self._client, self._new_client()
            old.purge()
            self._serve(old, 0.0)
            close_within(old.close, self._settings.close_timeout_s, "a Kafka producer")
            self._errors.lost_count = ""  # last: the old client may have reported it again
        self._callbacks.serve()

    def _poll(self, timeout_s: float) -> int:
        self._serve(self._client, timeout_s)
        return self._callbacks.serve()

    def _flush(self, timeout_s: float) -> int:
        deadline = Deadline(timeout_s)
        while True:
            try:
                self._client.flush(deadline.left_s(at_most=SLICE_S))
            except KafkaException as error:
                self._errors.on_error(error.args[0])
            self._callbacks.serve()
            waiting = len(self._client)
            if not waiting or deadline.passed():
                return waiting

    def _reporter(
        self, topic: str, partition: int, on_delivery: OnDelivery | None, on_appended: OnAppended | None
    ) -> Callable[[KafkaError | None, Message], None]:
        def report(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self._errors.worked()
                self._callbacks.add(on_delivery, on_appended, message.offset() or 0)
            else:
                self._callbacks.add(on_delivery, on_appended, self._failure(topic, partition, error))

        return report

    def _failure(self, topic: str, partition: int, error: KafkaError) -> BrokerError:
        what, needs = f"a record for {topic}[{partition}]", Right("Write", "topic", topic)
        return delivery_error(error, what, self._settings, self._errors.last_error, needs)

    def _full(self, topic: str, partition: int) -> DeliveryFailed:
        return DeliveryFailed(
            f"a record for {topic}[{partition}] was not queued: the queue of {self._settings.producer_queue_kib} KiB "
            f"stayed full for {self._settings.delivery_timeout_s:g} s ({self._errors.last_error or 'no error'})"
        )
