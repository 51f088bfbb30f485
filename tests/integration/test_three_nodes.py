"""Three real nodes: whatever dies, what was acknowledged is there, once and in order."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from driftline.broker.embedded import EmbeddedBroker
from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.port import EndReached, Record, Start
from driftline.broker.topics import Stream, run_topics, topic_name
from driftline.errors import BrokerError

pytestmark = [pytest.mark.kafka, pytest.mark.nodes, pytest.mark.timeout(400)]

NODES = 3
GAP_S = 30.0
"""A fail-over takes two to three seconds; a machine that is busy with other tests makes more of it."""


class Writing:
    """Writes numbers to three partitions, without a pause, and keeps what was acknowledged."""

    def __init__(self, broker: KafkaBroker, topic: str) -> None:
        self._topic = topic
        self._producer = broker.producer()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.acknowledged: dict[int, list[int]] = {partition: [] for partition in range(NODES)}
        self.failed: list[BrokerError] = []
        self._thread.start()

    def _write(self) -> None:
        number = 0
        while not self._stop.is_set():
            for partition in range(NODES):
                self._producer.send(self._topic, partition, b"%d" % number, on_delivery=self._note(partition, number))
            number += 1
            self._producer.poll()
            self._stop.wait(0.01)
        assert self._producer.close(GAP_S) == 0

    def _note(self, partition: int, number: int) -> Callable[[BrokerError | None], None]:
        def note(error: BrokerError | None) -> None:
            if error is None:
                self.acknowledged[partition].append(number)
            else:
                self.failed.append(error)

        return note

    def goes_on(self) -> None:
        """Return once each partition has acknowledged something that was written after now."""
        before = {partition: len(numbers) for partition, numbers in self.acknowledged.items()}
        deadline_s = time.monotonic() + GAP_S
        # More than can have been on its way: at most five requests are.
        while any(len(self.acknowledged[partition]) < before[partition] + 20 for partition in range(NODES)):
            assert time.monotonic() < deadline_s, f"writing did not go on: {self.failed[:1]}"
            time.sleep(0.05)

    def end(self) -> None:
        """Write no more, and wait for the last acknowledgement."""
        self._stop.set()
        self._thread.join(timeout=2 * GAP_S)


@contextmanager
def written(broker: KafkaBroker, topic: str) -> Iterator[Writing]:
    """Write while the block runs."""
    writing = Writing(broker, topic)
    try:
        yield writing
    finally:
        writing.end()


def read(broker: KafkaBroker, topic: str, partition: int) -> list[int]:
    """Read all of a partition."""
    reader = broker.reader()
    try:
        reader.read(topic, partition, Start.BEGINNING)
        numbers = []
        deadline_s = time.monotonic() + GAP_S
        while not isinstance(event := reader.poll(1.0), EndReached):
            assert time.monotonic() < deadline_s, "the end never came"
            if isinstance(event, Record):
                numbers.append(int(event.value or b""))
        return numbers
    finally:
        reader.close()


def leaders(servers: str, topic: str) -> set[int]:
    """Return the nodes that lead a partition of the topic."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    return {partition.leader for partition in admin.list_topics(topic, timeout=20).topics[topic].partitions.values()}


def controller(broker: EmbeddedBroker) -> int:
    """Wait for an active controller and return its number."""
    deadline_s = time.monotonic() + GAP_S
    while not (found := [node.node for node in broker.status().nodes if node.controller]):
        assert time.monotonic() < deadline_s, "no controller was elected"
        time.sleep(0.2)
    return found[0]


def test_nothing_acknowledged_is_lost_whatever_dies(tmp_path: Path) -> None:
    """The controller, which leads too, then all nodes, then another leader: acknowledged is what is read, in its order.

    Writing goes on all the time, also while no node is there.
    """
    home, topic = tmp_path / "three", topic_name("three", Stream.DELTAS)
    with EmbeddedBroker(home, nodes=NODES, prepare=False) as nodes:
        broker = KafkaBroker(KafkaSettings(nodes.bootstrap_servers, delivery_timeout_s=200.0))
        admin = broker.admin()
        admin.create(run_topics("three", NODES))
        assert admin.configs([topic])[topic]["min.insync.replicas"] == "2"
        admin.close()
        with written(broker, topic) as writing:
            writing.goes_on()
            # Partitions are spread over the nodes, so each of them leads one.
            assert leaders(nodes.bootstrap_servers, topic) == {1, 2, 3}
            first = controller(nodes)
            nodes.kill(first)
            writing.goes_on()
            assert controller(nodes) != first
            nodes.kill()
            assert nodes.status().state == "died"
            nodes.start()
            assert nodes.status().state == "ready"
            writing.goes_on()
            leader = next(node for node in nodes.nodes if node != controller(nodes))
            nodes.kill(leader)
            writing.goes_on()
            assert leader not in leaders(nodes.bootstrap_servers, topic)
        assert not writing.failed
        for partition, acknowledged in writing.acknowledged.items():
            # Twice only what was under way when a client lost count of it and was replaced: see `Producer`.
            assert list(dict.fromkeys(read(broker, topic, partition))) == acknowledged
