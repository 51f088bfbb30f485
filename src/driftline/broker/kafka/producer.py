"""The Kafka ``Producer``."""

import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as Client

from driftline.broker.guard import ClientGuard
from driftline.broker.kafka.closing import close_within
from driftline.broker.kafka.errors import Faults, translated, undelivered
from driftline.broker.kafka.settings import KafkaSettings
from driftline.broker.payload import check_payload
from driftline.broker.port import OnDelivery, Payload
from driftline.errors import BrokerError, DeliveryFailed

_SLICE_S = 0.1
"""Longest time inside librdkafka at once, so that Ctrl-C gets through."""


class KafkaProducer:
    """Writes with idempotence. May be shared by threads; callbacks are served on whichever of them is in a method."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._faults = Faults(settings)
        self._guard = ClientGuard("producer")
        self._client = Client({**settings.producer(), "error_cb": self._faults.on_error})

    def send(
        self,
        topic: str,
        partition: int,
        value: Payload | None,
        *,
        key: bytes | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> None:
        """See ``Producer.send``."""
        self._guard.check()
        check_payload(topic, partition, key, value)
        callback = self._callback(topic, partition, on_delivery)
        deadline_s = time.monotonic() + self._settings.delivery_timeout_s
        while True:
            self._faults.check()
            try:
                # librdkafka copies an array of uint8 itself; the stub knows only bytes.
                self._client.produce(topic, value, key, partition, callback)  # type: ignore[arg-type]
                break
            except BufferError:
                if time.monotonic() >= deadline_s:
                    raise self._full(topic, partition) from None
                # Back-pressure: wait for a delivery to make room, never drop.
                self._client.poll(_SLICE_S)
            except KafkaException as error:
                raise translated(error.args[0], f"writing to {topic}[{partition}]", self._settings) from None
        self._client.poll(0)

    def poll(self, timeout_s: float = 0.0) -> int:
        """See ``Producer.poll``."""
        self._guard.check()
        self._faults.check()
        deadline_s = time.monotonic() + timeout_s
        while True:
            left_s = deadline_s - time.monotonic()
            served = self._client.poll(max(0.0, min(_SLICE_S, left_s)))
            if served or left_s <= _SLICE_S:
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
            # What is left fails now, with its callback, instead of never.
            self._client.purge()
            self._client.poll(0)
        close_within(self._client.close, self._settings.close_timeout_s, "a Kafka producer")
        return undelivered_records

    def _flush(self, timeout_s: float) -> int:
        deadline_s = time.monotonic() + timeout_s
        while True:
            left_s = deadline_s - time.monotonic()
            waiting = self._client.flush(max(0.0, min(_SLICE_S, left_s)))
            if not waiting or left_s <= _SLICE_S:
                return waiting

    def _callback(
        self, topic: str, partition: int, on_delivery: OnDelivery | None
    ) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is None:
                self._faults.worked()
            if on_delivery is not None:
                on_delivery(None if error is None else self._failure(topic, partition, error))

        return delivered

    def _failure(self, topic: str, partition: int, error: KafkaError) -> BrokerError:
        return undelivered(error, f"a record for {topic}[{partition}]", self._settings, self._faults.last_word)

    def _full(self, topic: str, partition: int) -> DeliveryFailed:
        return DeliveryFailed(
            f"a record for {topic}[{partition}] was not queued: the queue of {self._settings.producer_queue_kib} KiB "
            f"stayed full for {self._settings.delivery_timeout_s:g} s ({self._faults.last_word or 'no error reported'})"
        )
