"""Runs are made and ended by command: the coordinator decides in the ledger, and the command reports it."""

import dataclasses
import threading

import pytest

from driftline.broker.topics import Stream, run_topics
from driftline.consumers.server.serving import serve
from driftline.errors import RunRefused
from driftline.ledger.entering.reading import read_ledger
from driftline.runs import catalogue, commands
from driftline.runs.commands import create_run, stop_run
from driftline.runs.requests import CREATED, EXISTS
from driftline.schemas.codec import decode, encode
from driftline.schemas.effects import Finish
from driftline.schemas.records import RunEnd, StopRequest, Version
from driftline.testing.memory import MemoryBroker
from tests.support.stage import CONFIG, LAYOUT, OFFER, Stage

RUN = CONFIG.name
DEADLINE_S = 60.0


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> MemoryBroker:
    """A log with the topics of the run."""
    monkeypatch.setattr(catalogue, "LISTEN_S", 0.1)
    monkeypatch.setattr(commands, "STEP_S", 0.005)
    log = MemoryBroker()
    log.admin().create(run_topics(RUN, CONFIG.partitions))
    return log


def tell(stage: Stage, event: StopRequest) -> None:
    """Put an event before the coordinator."""
    stage.append(Stream.EVENTS, 0, bytes(encode(event)))


def stopped(stage: Stage) -> RunEnd:
    """Ask for the end, and let time pass."""
    start = stage.worker.state.start
    tell(stage, StopRequest(run=start.run, sender="ada-laptop", reason="enough"))
    for _ in range(20):
        stage.tick()
        stage.work()
    ended = stage.worker.state.ended
    assert ended is not None
    return ended


def test_a_run_that_is_stopped_ends_at_its_head_which_is_published() -> None:
    """Who stopped it, and why, stands in the ledger; members end without a failure and have the last model."""
    stage = Stage()
    stage.play(2)
    ended = stopped(stage)
    assert (ended.version, ended.failure) == (2, "")
    assert ended.reason == "stopped by ada-laptop: enough"
    assert stage.finishes["worker-1"] == Finish("stopped by ada-laptop: enough", "")
    assert 2 in stage.worker.state.states
    newest = stage.worker.reader.follower.newest
    assert newest is not None
    assert newest.version == 2


def test_no_version_is_made_after_a_stop_was_asked_for() -> None:
    """Although the worker has contributed to the next one."""
    stage = Stage()
    stage.play(2)
    stage.settle()
    stopped(stage)
    records = [decode(received.value) for received in stage.log[Stream.LEDGER, 0]]
    assert [record.version for record in records if isinstance(record, Version)] == [1, 2]


def test_a_stop_of_another_run_of_the_name_is_ignored() -> None:
    """As no event is."""
    stage = Stage()
    stage.play(2)
    tell(stage, StopRequest(run=b"?" * 16, sender="ada", reason="enough"))
    stage.play(3)
    assert stage.worker.state.ended is None


def test_a_run_is_made_by_command_without_any_server_and_again_if_it_is_the_same(broker: MemoryBroker) -> None:
    """Our own server accepts it, and is gone afterwards."""
    assert create_run(broker, RUN, OFFER, "ada", timeout_s=DEADLINE_S).reason == CREATED
    state = read_ledger(broker, RUN)
    assert state.config == CONFIG
    assert state.layout == LAYOUT
    assert not state.first_names
    assert create_run(broker, RUN, OFFER, "ada", timeout_s=DEADLINE_S).reason == EXISTS
    other = dataclasses.replace(OFFER, config=dataclasses.replace(CONFIG, steps=9, seed=1))
    with pytest.raises(RunRefused, match=r"(?s)other settings.*seed: 1 here, 0 in the run.*steps: 9 here, 4"):
        create_run(broker, RUN, other, "ada", timeout_s=DEADLINE_S)
    assert not [thread for thread in threading.enumerate() if thread.name == "ada-server"]


def test_a_run_without_members_is_stopped_by_command_and_only_once(broker: MemoryBroker) -> None:
    """Our own server ends it; a second stop finds it ended."""
    create_run(broker, RUN, OFFER, "ada", timeout_s=DEADLINE_S)
    state = stop_run(broker, RUN, "ada", "enough", timeout_s=DEADLINE_S)
    assert state.ended is not None
    assert state.ended.reason == "stopped by ada: enough"
    again = stop_run(broker, RUN, "bob", "really", timeout_s=DEADLINE_S)
    assert again.ended == state.ended


def test_a_live_server_ends_the_run(broker: MemoryBroker) -> None:
    """Then it is the one that decides, and it ends well."""
    create_run(broker, RUN, OFFER, "ada", timeout_s=DEADLINE_S)
    finishes: list[Finish] = []
    server = threading.Thread(target=lambda: finishes.append(serve(broker, RUN, "server-1", stop=threading.Event())))
    server.start()
    stop_run(broker, RUN, "ada", "enough", timeout_s=DEADLINE_S)
    server.join(DEADLINE_S)
    assert finishes == [Finish("stopped by ada: enough", "")]


def test_what_has_not_begun_cannot_be_stopped(broker: MemoryBroker) -> None:
    """There are topics and nothing in them."""
    with pytest.raises(RunRefused, match="it has not begun"):
        stop_run(broker, RUN, "ada", "enough", timeout_s=DEADLINE_S)
