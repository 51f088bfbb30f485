"""Runs every contract test against both implementations of the seam."""

from collections.abc import Callable, Iterator

import pytest

from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.memory import MemoryBroker
from driftline.broker.port import Broker
from tests.contract.support import Lab

_NOBODY = "127.0.0.1:1"


def _memory_away() -> Broker:
    broker = MemoryBroker(delivery_timeout_s=1.0)
    broker.go_away()
    return broker


def _kafka_away() -> Broker:
    return KafkaBroker(KafkaSettings(_NOBODY, request_timeout_s=0.3, delivery_timeout_s=1.0))


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.kafka)])
def lab(request: pytest.FixtureRequest, unique_name: Callable[[str], str]) -> Iterator[Lab]:
    """A broker of either kind."""
    closers: list[Callable[[], object]] = []
    if request.param == "memory":
        made = Lab(MemoryBroker(), _memory_away, unique_name, closers)
    else:
        # A topic that is missing is reported after these times; five seconds, the default, would only make tests slow.
        settings = KafkaSettings(
            request.getfixturevalue("kafka_bootstrap"),
            {"topic.metadata.propagation.max.ms": "500"},
            idle_check_s=0.5,
            # Far above every deadline here: whoever closes must tell the group, not be missed by it.
            session_timeout_s=60,
            # Little is fetched ahead, so that a test can overtake it.
            reader_queue_kib=1024,
        )
        made = Lab(KafkaBroker(settings), _kafka_away, unique_name, closers)
    yield made
    for close in reversed(closers):
        close()
