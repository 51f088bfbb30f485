"""Exits of worker processes are reported for those alone, until the ledger has removed the member."""

import pytest

from driftline.broker.port import Start
from driftline.broker.reading import until_end
from driftline.broker.topics import Stream, run_topics, topic_name
from driftline.consumers.coordinator.pending_members import PROCESS_ENDED
from driftline.errors import UsageError
from driftline.launch import exits as module
from driftline.launch.chaos import LedgerWatch
from driftline.launch.exits import ExitReporter
from driftline.producers.member import new_incarnation, new_mark, read_mark
from driftline.schemas.codec import decode, encode
from driftline.schemas.records import Leave
from driftline.testing.memory import MemoryBroker
from tests.support.small_ledger import UUID, whole_run, write
from tests.support.stage import Stage


def sent(broker: MemoryBroker) -> list[object]:
    """Return all events in the log."""
    return [decode(one.value) for one in until_end(broker, topic_name("r", Stream.EVENTS), 0, Start.BEGINNING)]


def test_an_exit_is_reported_for_an_ended_process_and_for_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not for who lives, not for a namesake elsewhere; again while the ledger has the member, and not afterwards."""
    broker = MemoryBroker()
    broker.admin().create(run_topics("r", 1))
    dead, alive = new_mark(), new_mark()
    members = {"ada": new_incarnation(dead), "bob": new_incarnation(alive), "eve": new_incarnation()}
    exits = ExitReporter(broker, "r")
    for _ in range(3):  # more often than it is repeated
        exits.report_exits(UUID, members, {dead})
    leave = Leave(run=UUID, worker="ada", incarnation=members["ada"], reason="its process has ended")
    assert sent(broker) == [leave]
    monkeypatch.setattr(module, "RESEND_S", 0.0)
    exits.report_exits(UUID, members, {dead})
    exits.report_exits(UUID, members, {dead})
    assert sent(broker)[1:]
    assert set(sent(broker)) == {leave}
    before = len(sent(broker))
    del members["ada"]
    members["ada"] = new_incarnation(new_mark())  # it was started again
    exits.report_exits(UUID, members, {dead})
    exits.close()
    assert len(sent(broker)) == before


def test_a_mark_is_read_or_refused() -> None:
    """What no process was given is not taken for one."""
    mark = new_mark()
    assert read_mark(mark.hex()) == mark
    assert read_mark("") == b""
    for wrong in ("xy", "00", mark.hex() + "00"):
        with pytest.raises(UsageError, match=f"--mark: '{wrong}' is no mark"):
            read_mark(wrong)


def test_a_watch_reads_version_and_coordinator_from_the_ledger() -> None:
    """From before the start to the end of the run."""
    broker = MemoryBroker()
    write(broker, "told", whole_run().values)
    watch = LedgerWatch(broker, "told")
    assert (watch.version, watch.coordinator) == (-1, "")
    while watch.state.ended is None:
        watch.poll(1.0)
    watch.close()
    assert (watch.version, watch.coordinator) == (watch.state.version, "server-1")


@pytest.mark.parametrize(("reason", "word"), [(PROCESS_ENDED, PROCESS_ENDED), ("no more for today", "left")])
def test_the_ledger_tells_a_reported_exit_from_a_leave(reason: str, word: str) -> None:
    """People ask why a worker is gone; whatever else it says of it stays out of the ledger."""
    stage = Stage()
    stage.play(1)
    start = stage.worker.state.start
    leave = Leave(run=start.run, worker="worker-1", incarnation=stage.worker.incarnation, reason=reason)
    stage.append(Stream.EVENTS, 0, bytes(encode(leave)))
    stage.settle()
    assert list(stage.server.state.removed.values()) == [word]
