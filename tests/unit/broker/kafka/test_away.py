"""While Kafka is away no client ends: it waits and asks again."""

from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as Client
from confluent_kafka.admin import AdminClient

from driftline.broker.kafka import KafkaSettings
from driftline.broker.kafka import consumer as module
from driftline.broker.kafka.admin import KafkaAdmin
from driftline.broker.kafka.consumer import Lookup
from driftline.broker.kafka.errors import delivery_error, translate
from driftline.broker.kafka.producer import KafkaProducer
from driftline.broker.port import Bounds
from driftline.errors import BrokerError, BrokerUnreachable, DeliveryFailed, TopicMissing

SOON_ANOTHER = (
    *("_PARTIAL", "_TRANSPORT", "_TIMED_OUT", "LEADER_NOT_AVAILABLE", "NOT_COORDINATOR"),
    *("_DESTROY_BROKER", "_UNKNOWN_BROKER", "_NODE_UPDATE", "_NOENT", "_WAIT_CACHE", "_RETRY"),
    *("BROKER_NOT_AVAILABLE", "NOT_CONTROLLER"),
)


@pytest.mark.parametrize("name", SOON_ANOTHER)
def test_temporary_errors_are_distinguished_from_refusals(name: str) -> None:
    """An overloaded Kafka answers ``_PARTIAL`` to a question to several brokers.

    ``_NOENT`` and ``_DESTROY_BROKER`` ended two servers when two of three nodes had died.
    """
    error = translate(KafkaError(getattr(KafkaError, name)), "looking for topics", KafkaSettings("localhost:9"))
    assert isinstance(error, BrokerUnreachable)
    assert "localhost:9" in str(error)


@pytest.mark.parametrize(
    "name", ["NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "_MSG_TIMED_OUT", "NOT_LEADER_FOR_PARTITION"]
)
def test_a_record_with_too_few_replicas_in_sync_is_retriable(name: str) -> None:
    """A client tries until the delivery time-out; the error after that must not count as a refusal."""
    error = delivery_error(
        KafkaError(getattr(KafkaError, name)), "a record for run.ledger[0]", KafkaSettings("localhost:9"), ""
    )
    assert isinstance(error, DeliveryFailed)
    assert error.retriable
    assert "run.ledger[0]" in str(error)
    assert "may or may not be in the log" in str(error)


class Spreading:
    """A cluster in which a new topic reaches the asked node after ``after`` questions."""

    def __init__(self, nodes: int, questions: int) -> None:
        self.count, self.left = nodes, questions

    def nodes(self, _timeout_s: float) -> list[int]:
        return list(range(self.count))

    def topics(self, timeout_s: float) -> dict[str, int]:
        del timeout_s
        self.left -= 1
        return {"run.ledger": 1} if self.left < 0 else {}

    def bounds(self, topic: str, _timeout_s: float | None) -> dict[int, Bounds]:
        if topic not in self.topics(1.0):
            raise TopicMissing(topic)
        return {0: Bounds(0, 1)}


def test_a_new_topic_may_take_time_to_reach_every_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a server that starts with its run would end when a busy node does not know the topic yet."""
    monkeypatch.setattr(module, "_GRACE_S", 0.02)
    monkeypatch.setattr(module, "_SPREAD_S", 5.0)
    lookup = Lookup(KafkaSettings("localhost:9"))
    lookup._admin = cast("KafkaAdmin", Spreading(3, 40))
    assert lookup.bounds("run.ledger") == {0: Bounds(0, 1)}
    lookup._admin = cast("KafkaAdmin", Spreading(3, 40))
    assert lookup.missing(["run.ledger"]) == []
    lookup._admin = cast("KafkaAdmin", Spreading(1, 10_000))
    assert lookup.missing(["run.ledger"]) == ["run.ledger"]
    with pytest.raises(TopicMissing):
        lookup.bounds("run.ledger")


class Slow:
    """A client whose broker takes some seconds to answer; an answer to a call that ended is lost."""

    def __init__(self, takes_s: float) -> None:
        self.takes_s, self.asked_s = takes_s, list[float]()

    def list_topics(self, _topic: str | None = None, *, timeout: float) -> SimpleNamespace:
        self.asked_s.append(timeout)
        if timeout < self.takes_s:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return SimpleNamespace(topics={}, brokers={1: SimpleNamespace(host="h", port=9)})

    def poll(self, _timeout_s: float) -> int:
        return 0


def test_a_slow_broker_gets_more_time() -> None:
    """A server never found a Kafka that always took more than half a second, however long it asked."""
    admin = KafkaAdmin(KafkaSettings("localhost:9"))
    client, slow = admin._client, Slow(2.5)
    try:
        admin._client = cast("AdminClient", slow)
        assert admin.topics() == {}
        assert [one.node for one in admin.nodes()] == [1]
    finally:
        admin._client = client
        admin.close()
    assert slow.asked_s == [0.5, 1.0, 2.0, 3.0, 3.0]


def fatal(name: str) -> KafkaError:
    """Return a client's error when it cannot write any more."""
    return KafkaError(getattr(KafkaError, name), "unable to guarantee consistency", fatal=True)


def test_a_producer_that_lost_count_fails_records_on_their_way_and_goes_on() -> None:
    """This happens when too few replicas are in sync for longer than the delivery time-out; it must not end a run."""
    producer, failed = KafkaProducer(KafkaSettings("localhost:9")), list[BrokerError | None]()
    producer.send("run.ledger", 0, b"before", on_delivery=failed.append)
    producer._errors.on_error(fatal("_INCONSISTENT"))
    producer.poll()
    producer.poll(0.5)
    (error,) = failed
    assert isinstance(error, DeliveryFailed)
    producer.send("run.ledger", 0, b"behind", on_delivery=failed.append)
    assert len(failed) == 1
    assert producer.close(0.1) == 1
    assert len(failed) == 2


class Spent(Client):
    """A client that reports that it has lost count only when it is polled."""

    def poll(self, timeout: float = -1) -> int:  # noqa: ARG002 - as it is there
        """Raise what librdkafka raises."""
        raise KafkaException(fatal("_INCONSISTENT"))


def test_a_producer_that_reports_lost_count_when_polled_is_replaced_too() -> None:
    producer = KafkaProducer(KafkaSettings("localhost:9"))
    spent = producer._client = Spent({"bootstrap.servers": "localhost:9", "log_level": 0})
    producer.poll()
    producer.send("run.ledger", 0, b"behind")
    assert id(producer._client) != id(spent)
    assert producer.close(0.1) == 1


def test_a_producer_without_the_right_to_write_fails() -> None:
    producer = KafkaProducer(KafkaSettings("localhost:9"))
    producer._errors.on_error(fatal("CLUSTER_AUTHORIZATION_FAILED"))
    with pytest.raises(BrokerError, match="failed for good"):
        producer.send("run.ledger", 0, b"x")
    producer.close(0.1)
