"""The same bytes over two raw hops of Kafka: produce, consume, produce, consume, and nothing else.

All shards are in flight at once; both consumers sit on their partitions already. The clients have the same settings as
driftline's own. An echo process of its own stands where a server would.
"""

import multiprocessing
import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.port import TopicSpec

THERE, BACK = "bench.there", "bench.back"
WAIT_S = 30.0


class RawPath:
    """A pair of topics, an echo process, and a client that sends records there and back."""

    def __init__(self, bootstrap_servers: str, partitions: int) -> None:
        self._settings = KafkaSettings(bootstrap_servers)
        self._partitions = partitions
        admin = KafkaBroker(self._settings).admin()
        admin.create([TopicSpec(THERE, partitions), TopicSpec(BACK, partitions)])
        admin.close()
        context = multiprocessing.get_context("spawn")
        ready = context.Event()
        self._echo = context.Process(target=_echo, args=(bootstrap_servers, partitions, ready), daemon=True)
        self._echo.start()
        if not ready.wait(WAIT_S):
            raise TimeoutError(f"the echo process did not come up within {WAIT_S:.0f} s")
        self._producer = Producer(self._settings.producer())
        self._consumer = _consumer(self._settings, BACK, partitions)

    def round_s(self, values: list[bytes]) -> float:
        """Send one record a partition and wait for all of them to come back; return the seconds that it took."""
        began_s = time.monotonic()
        for index, value in enumerate(values):
            _produce(self._producer, THERE, value, index % self._partitions)
        missing = len(values)
        while missing:
            missing -= _is_record(self._consumer.poll(0.001))
            self._producer.poll(0)
            if time.monotonic() - began_s > WAIT_S:
                raise TimeoutError(f"{missing} of {len(values)} records did not come back within {WAIT_S:.0f} s")
        return time.monotonic() - began_s

    def close(self) -> None:
        """End the echo process and release the clients."""
        self._echo.terminate()
        self._echo.join(WAIT_S)
        self._consumer.close()
        self._producer.flush(WAIT_S)


def _consumer(settings: KafkaSettings, topic: str, partitions: int) -> Consumer:
    consumer = Consumer(settings.consumer())
    starts = []
    for partition in range(partitions):
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=WAIT_S)
        starts.append(TopicPartition(topic, partition, end))
    consumer.assign(starts)
    while consumer.poll(0.2) is not None:  # the ends of the partitions
        pass
    return consumer


def _produce(producer: Producer, topic: str, value: bytes, partition: int) -> None:
    while True:
        try:
            producer.produce(topic, value, partition=partition)
            break
        except BufferError:  # the queue is full: what driftline does then, too
            producer.poll(0.1)


def _is_record(message: Any) -> bool:
    return message is not None and message.error() is None


def _echo(bootstrap_servers: str, partitions: int, ready: Any) -> None:
    settings = KafkaSettings(bootstrap_servers)
    producer, consumer = Producer(settings.producer()), _consumer(settings, THERE, partitions)
    ready.set()
    while True:
        message: Any = consumer.poll(0.05)
        if _is_record(message):
            _produce(producer, BACK, message.value(), message.partition())
        producer.poll(0)
