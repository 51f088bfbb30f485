"""When Kafka's client stands still on a partition without an error, our readers read on all the same."""

from collections.abc import Callable
from typing import cast

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.kafka.group import KafkaGroupReader
from driftline.broker.kafka.reader import KafkaReader
from driftline.broker.port import Assigned, Record, Start, TopicSpec
from tests.contract.support import until, values_of, write

pytestmark = pytest.mark.kafka


@pytest.fixture
def broker(kafka_bootstrap: str) -> KafkaBroker:
    """Kafka, whose readers check soon whether they stand still."""
    return KafkaBroker(KafkaSettings(kafka_bootstrap, idle_check_s=0.3))


@pytest.fixture
def topic(broker: KafkaBroker, unique_name: Callable[[str], str]) -> str:
    """A topic of one partition with one record."""
    name = unique_name("topic")
    admin, producer = broker.admin(), broker.producer()
    admin.create([TopicSpec(name, 1)])
    write(producer, name, 0, b"first")
    admin.close()
    producer.close()
    return name


class Still:
    """A client that returns nothing until it is assigned a partition again."""

    def __init__(self, client: Consumer) -> None:
        self._client, self._is_still = client, True

    def poll(self, timeout_s: float) -> Message | None:
        message = self._client.poll(timeout_s)
        return None if self._is_still else message

    def incremental_assign(self, places: list[TopicPartition]) -> None:
        self._is_still = False
        self._client.incremental_assign(places)

    def __getattr__(self, name: str) -> object:
        return getattr(self._client, name)


def _goes_on(broker: KafkaBroker, topic: str, reader: KafkaReader | KafkaGroupReader) -> None:
    """Let the client stand still; records written after that must arrive."""
    assert until(reader, Record).value == b"first"
    setattr(reader, "_client", Still(cast("Consumer", reader._client)))  # noqa: B010 - nothing else stops it
    producer = broker.producer()
    write(producer, topic, 0, b"second", b"third")
    producer.close()
    assert values_of(reader, 2) == [b"second", b"third"]
    reader.close()


def test_a_reader_that_stands_still_reads_on(broker: KafkaBroker, topic: str) -> None:
    reader = broker.reader()
    reader.read(topic, 0, Start.BEGINNING)
    _goes_on(broker, topic, reader)


def test_a_group_member_that_stands_still_reads_on(
    broker: KafkaBroker, topic: str, unique_name: Callable[[str], str]
) -> None:
    reader = broker.group_reader(topic, unique_name("group"), "member", Start.BEGINNING)
    until(reader, Assigned)
    _goes_on(broker, topic, reader)


def test_a_paused_partition_stays_paused(broker: KafkaBroker, topic: str, unique_name: Callable[[str], str]) -> None:
    reader = broker.group_reader(topic, unique_name("group"), "member", Start.BEGINNING)
    until(reader, Assigned)
    assert until(reader, Record).value == b"first"
    reader.pause([0])
    producer = broker.producer()
    write(producer, topic, 0, b"second")
    producer.close()
    assert not any(isinstance(reader.poll(0.1), Record) for _ in range(15))
    reader.resume([0])
    assert until(reader, Record).value == b"second"
    reader.close()
