"""Two of three nodes are away: every write is refused, so the run waits, says why, and goes on when they are back."""

import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from driftline.broker.embedded import EmbeddedBroker
from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.topics import run_topics
from driftline.ledger.entering.reading import read_ledger
from driftline.replay.verify.reading import verify_run
from tests.contract.test_runs import sgd_offer
from tests.support.roles_in_threads import Ends

pytestmark = [pytest.mark.kafka, pytest.mark.nodes, pytest.mark.timeout(400)]

RUN = "lonely"
PATIENCE_S = 120.0


def wait_until(question: Callable[[], bool], ends: Ends) -> None:
    """Wait until something is so, while all processes work."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not question():
        assert not ends.errors
        assert not ends.finishes
        assert time.monotonic() < deadline_s
        time.sleep(0.2)


def test_a_run_waits_while_one_node_of_three_is_left_and_goes_on_with_nothing_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Longer than the delivery time-out, so that records are given up, sent again, and used once."""
    caplog.set_level(logging.INFO, "driftline")
    with EmbeddedBroker(tmp_path / "three", nodes=3, prepare=False) as nodes:
        broker, ends = KafkaBroker(KafkaSettings(nodes.bootstrap_servers, delivery_timeout_s=6.0)), Ends()
        admin = broker.admin()
        admin.create(run_topics(RUN, 4))
        admin.close()
        ends.play(broker, broker, sgd_offer(RUN, 1, steps=0))
        try:
            wait_until(lambda: read_ledger(broker, RUN).version >= 3, ends)
            for node in nodes.nodes[:2]:
                nodes.kill(node)
            wait_until(lambda: caplog.text.count("Kafka has acknowledged nothing for") >= 4, ends)
            for node in (1, 2):
                nodes.revive(node)
            before = read_ledger(broker, RUN)
            wait_until(lambda: read_ledger(broker, RUN).version >= before.version + 3, ends)
            assert not before.removed
        finally:
            ends.stop.set()
            ends.wait(PATIENCE_S)
        report = verify_run(broker, RUN)
        assert report.is_proven, report.first_bad
