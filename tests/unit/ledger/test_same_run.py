"""A run that was deleted while a process slept, and whose name another run has by now: the process says so and ends."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from driftline.broker.topics import Stream, run_topics, topic_name
from driftline.consumers.server import serving
from driftline.errors import RunRefused, WaitTimeout
from driftline.ledger.entering import same_run
from driftline.ledger.entering.checkpoint import enter_ledger
from driftline.ledger.entering.reading import read_ledger
from driftline.ledger.entering.same_run import SameRun
from driftline.ledger.run_state import RunState
from driftline.observe.run import watch as watch_module
from driftline.observe.versions import follow_run
from driftline.producers.session import WorkerSession
from driftline.runtime import running as module
from driftline.runtime.running import Running
from driftline.testing.memory import MemoryBroker
from tests.contract.test_runs import sgd_offer
from tests.support.roles_in_threads import Ends

RUN = "slept"
OFFER = sgd_offer(RUN, 1, steps=0)
TOPICS = run_topics(RUN, OFFER.config.partitions)
LEDGER = topic_name(RUN, Stream.LEDGER)
OTHER = r"was deleted, another .* has begun under its name"
DEADLINE_S = 30.0


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a waiting process look often."""
    monkeypatch.setattr(module, "SAY_S", 0.2)
    monkeypatch.setattr(same_run, "LOOK_EVERY_S", 0.2)


@pytest.fixture
def broker() -> MemoryBroker:
    """Give a run without members at work."""
    return begun(versions=5)


def begun(versions: int) -> MemoryBroker:
    """Return the log of a run that was left behind so many versions."""
    broker = MemoryBroker()
    broker.admin().create(TOPICS)
    with working(broker):
        wait_until(lambda: read_ledger(broker, RUN).version >= versions)
    return broker


@contextmanager
def working(broker: MemoryBroker) -> Iterator[Ends]:
    """Let a server and a worker be at work meanwhile."""
    ends = Ends()
    ends.play(broker, broker, OFFER)
    try:
        yield ends
    finally:
        ends.stop.set()
        ends.wait(DEADLINE_S)


def wait_until(question: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not question():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def begin_another(broker: MemoryBroker) -> None:
    """Let a run of the same name that is longer stand in the place of the one that is there."""
    ends = {spec.name: broker.log.bounds(spec.name, 0).end for spec in TOPICS}
    made = begun(versions=5 * max(read_ledger(broker, RUN).version, 20))
    assert all(made.log.bounds(name, 0).end > end for name, end in ends.items() if name != snapshots())
    put_in_its_place(broker, made)


def put_in_its_place(broker: MemoryBroker, made: MemoryBroker) -> None:
    """Delete the run's topics, and make them again with what another Kafka's topics of the same names hold."""
    broker.go_away()
    for spec in TOPICS:
        broker.log.delete(spec.name)
        broker.log.create(spec)
        for partition in range(spec.partitions):
            for offset in range(made.log.bounds(spec.name, partition).end):
                record = made.log.read(spec.name, partition, offset)
                if record is not None:
                    broker.log.append(spec.name, partition, record.value, key=record.key)
    broker.come_back()


def snapshots() -> str:
    """Return the topic that is written once."""
    return topic_name(RUN, Stream.SNAPSHOTS)


def test_a_follower_ends_when_another_run_has_outgrown_its_own(broker: MemoryBroker) -> None:
    """All records of the other one that it reads build on what it has never seen: it would wait in vain."""
    versions = follow_run(broker, RUN, timeout_s=DEADLINE_S)
    next(versions)
    timer = threading.Timer(0.3, begin_another, [broker])
    timer.start()
    with pytest.raises(RunRefused, match=OTHER):
        next(versions)
    timer.join()


def test_a_viewer_ends_with_the_same_reason(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of seeing the last frame of the run that is gone for ever."""
    monkeypatch.setattr(same_run, "LOOK_EVERY_S", 0.2)
    with watch_module.RunWatch(broker, RUN) as watch:
        watch.catch_up()
        begin_another(broker)
        with pytest.raises(RunRefused, match=OTHER):
            look_on(watch)


def look_on(watch: watch_module.RunWatch) -> None:
    """Watch for as long as a test may take."""
    deadline_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s:
        watch.read(0.1)


def test_a_worker_ends_with_the_same_reason(broker: MemoryBroker) -> None:
    session = WorkerSession("ada", bytes(16), OFFER, bytes(16), state=enter_ledger(broker, RUN).state())
    never = threading.Event()
    with Running(broker, RUN, session, "ada") as running:
        running.wait_for(lambda: session.reader.is_caught_up or None, stop=never, timeout_s=DEADLINE_S, whom=str)
        timer = threading.Timer(0.3, begin_another, [broker])
        timer.start()
        with pytest.raises(RunRefused, match=OTHER):
            running.wait_for(lambda: None, stop=never, timeout_s=DEADLINE_S, whom=str)
        timer.join()


def test_a_server_ends_with_the_same_reason(broker: MemoryBroker) -> None:
    """Before it is in the way of the other run's own servers."""
    said: list[RunRefused] = []
    stop = threading.Event()

    def serve() -> None:
        try:
            serving.serve(broker, RUN, "server-9", stop=stop)
        except RunRefused as error:
            said.append(error)

    server = threading.Thread(target=serve)
    server.start()
    try:
        before = broker.log.bounds(LEDGER, 0).end
        wait_until(lambda: broker.log.bounds(LEDGER, 0).end > before)  # it leads
        begin_another(broker)
        server.join(DEADLINE_S)
    finally:
        stop.set()
        server.join(DEADLINE_S)
    assert [OTHER.partition(",")[0] in str(error) for error in said] == [True]


def test_records_that_do_not_count_are_no_proof(broker: MemoryBroker) -> None:
    """Left by replaced coordinators or written by any client: it is looked up, and the wait goes on."""
    versions = follow_run(broker, RUN, timeout_s=2.0)
    next(versions)
    stray = broker.log.read(LEDGER, 0, 2)
    assert stray is not None
    timer = threading.Timer(0.3, broker.producer().send, [LEDGER, 0, stray.value])
    timer.start()
    with pytest.raises(WaitTimeout, match="a version newer than"):
        next(versions)
    timer.join()


def test_doubt_is_about_what_came_since_the_last_question(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many records that count end the doubt, and where Kafka does not answer, the wait goes on."""
    monkeypatch.setattr(same_run, "LOOK_EVERY_S", 0.0)
    state = RunState()
    values = [record.value for record in (broker.log.read(LEDGER, 0, one) for one in range(6)) if record is not None]
    for offset, value in enumerate(values[:3]):
        state.read(offset, value)
    same = SameRun(broker, RUN, state)
    assert not same.is_in_doubt()
    state.read(3, values[2])  # once more, so it does not count
    assert same.is_in_doubt()
    assert not same.is_in_doubt()
    state.read(4, values[2])
    state.read(5, values[3])
    assert not same.is_in_doubt()
    broker.go_away()
    caplog.set_level(logging.INFO)
    same.check()
    assert "cannot be looked up" in caplog.text
