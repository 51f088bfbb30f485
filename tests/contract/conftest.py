"""Runs every contract test on both implementations of the seam."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.kafka.settings import GroupProtocol
from driftline.broker.port import Broker
from driftline.testing.memory import MemoryBroker
from tests.contract.support import Lab

SESSION_S = 60
"""Far above every deadline here: a member that closes must leave the group, not time out of it."""

_NOBODY = "127.0.0.1:1"


def _memory_away() -> Broker:
    broker = MemoryBroker(delivery_timeout_s=1.0)
    broker.go_away()
    return broker


def _kafka_away() -> Broker:
    return KafkaBroker(KafkaSettings(_NOBODY, request_timeout_s=0.3, delivery_timeout_s=1.0))


def _kafka(bootstrap_servers: str, protocol: GroupProtocol) -> Broker:
    # A topic that is missing is reported after these times; five seconds, the default, would only make tests slow.
    return KafkaBroker(
        KafkaSettings(
            bootstrap_servers,
            {"topic.metadata.propagation.max.ms": "500"},
            idle_check_s=0.5,
            session_timeout_s=SESSION_S,
            group_protocol=protocol,
            # Little is fetched ahead, so that a test can overtake it.
            reader_queue_kib=1024,
        )
    )


def _with_long_sessions(bootstrap_servers: str, unique_name: Callable[[str], str]) -> Callable[[str], str]:
    """Return ``unique_name`` with a prefix whose groups have the session of classic clients."""
    client = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})

    def unique(label: str) -> str:
        name = unique_name(label)
        entry = ConfigEntry(
            "consumer.session.timeout.ms", str(SESSION_S * 1000), incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.GROUP, name, incremental_configs=[entry])
        client.incremental_alter_configs([resource])[resource].result(20)
        return name

    return unique


@pytest.fixture(params=["memory", pytest.param("classic", marks=pytest.mark.kafka)])
def lab(request: pytest.FixtureRequest, unique_name: Callable[[str], str]) -> Iterator[Lab]:
    """A broker: in memory, or Kafka with groups of one protocol; tests of groups add the other protocols."""
    closers: list[Callable[[], object]] = []
    if request.param == "memory":
        made = Lab(MemoryBroker(), _memory_away, unique_name, closers)
    else:
        servers, protocol = request.getfixturevalue("kafka_bootstrap"), GroupProtocol(request.param)
        if protocol is GroupProtocol.CONSUMER:
            unique_name = _with_long_sessions(servers, unique_name)
        made = Lab(_kafka(servers, protocol), _kafka_away, unique_name, closers)
    yield made
    for close in reversed(closers):
        close()
