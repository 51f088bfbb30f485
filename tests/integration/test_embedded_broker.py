"""The real Kafka: data and address survive, a killed user takes it along, and what it promises clients holds."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from driftline.broker.embedded import EmbeddedBroker, java
from driftline.broker.embedded.jars import ensure_jars
from driftline.config.connection import Connection
from driftline.errors import BrokerUnreachable
from driftline.testing import running_broker

pytestmark = pytest.mark.kafka

MIB = 1 << 20
USER = """
import pathlib, sys, time
from driftline.broker.embedded import EmbeddedBroker
print(EmbeddedBroker(pathlib.Path(sys.argv[1]), prepare=False).start(), flush=True)
time.sleep(100)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One home for all tests here, with a name that Kafka's own settings could not hold."""
    path = tmp_path_factory.mktemp("a home, größer")
    yield path
    EmbeddedBroker(path, prepare=False).stop()


def produce(servers: str, topic: str, value: bytes) -> KafkaError | None:
    """Write one record and return what became of it; the client would send up to 8 MiB."""
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "message.max.bytes": 8 * MIB})
    producer.produce(topic, value, partition=0, on_delivery=lambda error, _message: errors.append(error))
    producer.flush(20)
    return errors[0]


def read_first(servers: str, topic: str) -> Any:
    """Return the first record of a topic."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "auto.offset.reset": "error"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return consumer.poll(20)
    finally:
        consumer.close()


def create(servers: str, topic: str) -> None:
    """Create a topic with one partition and nothing but defaults."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(20)


def test_the_class_path_is_one_kafka() -> None:
    """What is really put on it, not only what the lock says."""
    names = [path.name for path in ensure_jars()]
    assert [name for name in names if name.startswith("kafka-clients-")] == ["kafka-clients-4.4.0.jar"]
    assert {name.rpartition("-")[2] for name in names if name.startswith("kafka")} == {"4.4.0.jar"}


def test_records_and_address_survive_a_crash(home: Path) -> None:
    """``kill -9`` of the broker, then a start: acknowledged records are there, at the same address."""
    sent_at_ms = time.time() * 1000
    with EmbeddedBroker(home, prepare=False) as broker:
        servers = broker.bootstrap_servers
        create(servers, "survivor")
        assert produce(servers, "survivor", b"acknowledged") is None
        broker.kill()
        assert broker.status().state == "died"
        assert broker.start() == servers
        record = read_first(servers, "survivor")
        assert record.value() == b"acknowledged"
        kind, time_ms = record.timestamp()
        assert kind == 2  # log append time
        assert abs(time_ms - sent_at_ms) < 60_000
        # Sizes are Kafka's defaults: 1 MiB and its overhead go, more is refused by the broker itself.
        assert produce(servers, "survivor", bytes(MIB - 1024)) is None
        refused = produce(servers, "survivor", bytes(2 * MIB))
        assert refused is not None
        assert refused.code() == KafkaError.MSG_SIZE_TOO_LARGE
        # A misspelt topic stays unknown.
        admin = AdminClient({"bootstrap.servers": servers})
        with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
            admin.delete_topics(["surviver"])["surviver"].result(20)


def test_two_starts_at_once_and_a_killed_user(home: Path) -> None:
    """Both get the one broker; it outlives the first that is killed and ends with the second."""
    command = [sys.executable, "-c", USER, str(home)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    first, second = (subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) for _ in range(2))
    with first, second:
        assert first.stdout is not None
        assert second.stdout is not None
        assert first.stdout.readline() == second.stdout.readline() != b""
        pid = EmbeddedBroker(home).status().pid
        first.kill()
        first.wait(timeout=5)
        time.sleep(1.2)
        assert EmbeddedBroker(home).status().pid == pid
        second.kill()
    deadline_s = time.monotonic() + 20
    while EmbeddedBroker(home).status().running:
        assert time.monotonic() < deadline_s, "the broker outlived its users"
        time.sleep(0.1)


def test_a_broken_cache_does_not_stop_it(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The JVM refuses it or crashes on it; the broker runs, and the cache is gone."""
    cache = tmp_path / "broken.aot"
    good = java.find_cache(ensure_jars())
    head = good.read_bytes()[:4096] if good else b""
    cache.write_bytes(head + os.urandom(MIB))
    monkeypatch.setattr(java, "find_cache", lambda _class_path: cache)
    with running_broker(home):
        seen = EmbeddedBroker(home).status()
        assert (seen.state, seen.aot) == ("ready", False)
    assert not cache.exists()


def test_the_commands_start_show_and_stop_it(home: Path) -> None:
    """As a user types them; the started broker outlives its command."""

    def driftline(*words: str) -> "subprocess.CompletedProcess[str]":
        program = "from driftline.cli import main; main(prog_name='driftline')"
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "DRIFTLINE_HOME": str(home),
        }
        command = [sys.executable, "-c", program, "broker", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=100, check=True, env=environment)

    servers = driftline("start").stdout.strip()
    seen = json.loads(driftline("status", "--json").stdout)
    assert (seen["state"], seen["bootstrap_servers"], seen["keep"]) == ("ready", servers, True)
    assert driftline("start").stdout.strip() == servers
    with pytest.raises(BrokerUnreachable) as refused:
        Connection(home, "127.0.0.1:9", timeout_s=0.3).reach("127.0.0.1:9")
    assert f"The broker of {home} runs, but at {servers}: to use it leave the address out" in str(refused.value)
    assert "stopped" in driftline("stop").stderr
    assert json.loads(driftline("status", "--json").stdout)["state"] == "stopped"
