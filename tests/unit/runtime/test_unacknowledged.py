"""Kafka takes nothing for long: it is said, and why, and for how long; nothing piles up, and it goes on by itself."""

import logging
import time
from collections.abc import Callable

import pytest

from driftline.broker.topic_check import Copies, why_not_writable
from driftline.broker.topics import Stream, run_topics
from driftline.ledger.entering.reading import read_ledger
from driftline.producers.session import WorkerSession
from driftline.runtime import traffic
from driftline.runtime.traffic import SAY_S, Unacknowledged
from driftline.schemas.codec import encode
from driftline.schemas.effects import Send, SendFailed
from driftline.schemas.records import NO_HASH, Contribution, GroupId, Heartbeat
from driftline.testing.memory import MemoryBroker
from driftline.training.task.evaluator import EvaluatorSession
from tests.contract.test_runs import sgd_offer
from tests.support.roles_in_threads import Ends

pytestmark = pytest.mark.slow

RUN = "waits"
DEADLINE_S = 60.0


def silent_since(start_s: float) -> Unacknowledged:
    writing = Unacknowledged()
    writing.sent("events", start_s)
    writing.sent("deltas", start_s + 1)
    return writing


def test_a_short_silence_is_not_worth_a_line() -> None:
    writing = silent_since(100.0)
    assert not writing.is_worth_a_line(100.0 + SAY_S - 0.1)
    assert writing.acknowledged("events", 100.0 + SAY_S - 0.1) == ""
    assert not writing.is_worth_a_line(100.0 + SAY_S + 0.1)  # the second record waits since the answer only


def test_a_long_silence_is_spoken_of_less_and_less_often_and_so_is_its_end() -> None:
    writing, said = silent_since(0.0), list[float]()
    for tenths in range(36_000):
        if writing.is_worth_a_line(tenths / 10):
            said.append(tenths / 10)
    assert said[:3] == [5.0, 10.0, 15.0]
    assert 20 < len(said) < 80
    assert "acknowledged nothing for 3600 s, 2 records wait" in writing.words(3600.0)
    assert writing.acknowledged("events", 3601.0) == "Kafka acknowledges again, after 3601 s"
    assert writing.words(3601.0) == ""


def test_records_that_are_given_up_are_no_answer() -> None:
    writing = silent_since(0.0)
    writing.failed()
    writing.failed()
    writing.sent("events", 30.0)
    assert "nothing for 31 s, 1 records wait" in writing.words(31.0)


def test_too_few_copies_in_sync_are_named_with_the_nodes_to_start() -> None:
    """Three nodes of which two are away, as Kafka tells it."""
    copies = {0: Copies(1, [1, 2, 3], [1]), 1: Copies(-1, [2, 3], [3]), 2: Copies(1, [1, 2, 3], [1, 3])}
    assert why_not_writable("run.ledger", copies, 2) == [
        "run.ledger[0] has 1 of 3 replicas in sync, and min.insync.replicas is 2; start nodes 2, 3",
        "no node leads run.ledger[1]; start node 2",
    ]


def test_where_the_least_is_not_known_every_missing_copy_is_named() -> None:
    copies = {0: Copies(1, [1, 2, 3], [1, 2]), 1: Copies(1, [1], [1])}
    assert why_not_writable("run.ledger", copies, None) == [
        "run.ledger[0] has 2 of 3 replicas in sync, and min.insync.replicas is not known; start node 3"
    ]


def beat() -> Send:
    record = Heartbeat(
        run=bytes(16), member="m", incarnation=bytes(16), role="worker", version=0, clock=0, waiting_share=0.0
    )
    return Send(Stream.EVENTS, 0, encode(record))


def contribution() -> Send:
    record = Contribution(
        run=bytes(16),
        group=GroupId(1, 0),
        clock=1,
        base_version=0,
        base_head=NO_HASH,
        weight=1.0,
        loss=0.0,
        cursor=1,
        shards=1,
        root=NO_HASH,
    )
    return Send(Stream.EVENTS, 0, encode(record))


def test_what_must_arrive_is_sent_again_and_heartbeats_are_not() -> None:
    """A heartbeat each tick, sent again for ever, would fill the queue in an outage of hours."""
    worker = WorkerSession("ada", b"a" * 16, sgd_offer(RUN, 1, steps=0), b"r" * 16)
    evaluator = EvaluatorSession("eva", b"e" * 16)
    for core in (worker, evaluator):
        assert core.on(SendFailed(beat(), "away")) == []
        assert core.on(SendFailed(contribution(), "away")) == [contribution()]


def wait_until(question: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not question():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def test_every_role_says_what_it_waits_for_and_goes_on_when_kafka_is_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An outage of many delivery time-outs: what is under way stays bounded, and no version is lost."""
    monkeypatch.setattr(traffic, "SAY_S", 0.5)
    caplog.set_level(logging.INFO, "driftline")
    broker, ends = MemoryBroker(delivery_timeout_s=0.5), Ends()
    broker.admin().create(run_topics(RUN, 4))
    ends.play(broker, broker, sgd_offer(RUN, 1, steps=0))
    try:
        wait_until(lambda: read_ledger(broker, RUN).version >= 3)
        broker.go_away()
        lines = Lines(caplog)
        wait_until(lambda: lines.count("Kafka has acknowledged nothing for") >= 6)
        assert "the in-memory broker does not answer" in caplog.text
        assert all(waiting < 100 for waiting in lines.waiting())
        broker.come_back()
        before = read_ledger(broker, RUN).version
        wait_until(lambda: read_ledger(broker, RUN).version >= before + 3)
        wait_until(lambda: lines.count("Kafka acknowledges again") >= 2)  # server and worker
        assert not ends.errors
    finally:
        broker.come_back()
        ends.stop.set()
        ends.wait(DEADLINE_S)


def test_a_process_that_is_asked_to_stop_while_kafka_is_away_stops() -> None:
    broker, ends = MemoryBroker(), Ends()
    broker.admin().create(run_topics(RUN, 4))
    ends.play(broker, broker, sgd_offer(RUN, 1, steps=0))
    wait_until(lambda: read_ledger(broker, RUN).version >= 3)
    broker.go_away()
    time.sleep(0.5)
    ends.stop.set()
    ends.wait(20.0)
    assert not any(thread.is_alive() for thread in ends.threads)
    assert not ends.errors


class Lines:
    """What was said in a test."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def count(self, words: str) -> int:
        """How many lines hold these words."""
        return sum(words in record.getMessage() for record in list(self._caplog.records))

    def waiting(self) -> list[int]:
        """How many records waited, each time that it was said."""
        said = [record.getMessage() for record in list(self._caplog.records)]
        return [int(one.split(" records wait")[0].rsplit(" ", 1)[1]) for one in said if " records wait" in one]
