"""The status object, from a ledger that is written and read like a real one."""

import dataclasses
import json
from collections.abc import Iterable

import pytest

from driftline.cli.screens.tables import ranges, status_lines, summary_lines
from driftline.ledger.entering.reading import read_ledger
from driftline.ledger.run_state import RunState
from driftline.observe.run.recent_events import read_recent_events
from driftline.observe.run.status import RunStatus, build_status
from driftline.observe.run.summary import training_seconds
from driftline.schemas.records import Event
from driftline.testing import ManualClock
from driftline.testing.memory import MemoryBroker
from tests.support.small_ledger import (
    ELEMENTS,
    FIRST,
    PARAMETERS,
    SECOND,
    STATE,
    UUID,
    Ledger,
    beat,
    events,
    server,
    whole_run,
    write,
)

FIELDS = {
    *("run", "uuid", "version", "digest", "parameters_digest", "term", "mode", "topology", "ended", "metrics"),
    *("samples", "rejected", "duplicates", "void", "staleness", "wire_bytes", "workers", "servers"),
}


def status_of(ledger: Ledger, said: Iterable[Event] = ()) -> RunStatus:
    """Write a run, read it back and look at it."""
    broker = MemoryBroker()
    write(broker, "told", ledger.values, said)
    state = read_ledger(broker, "told")
    return build_status("told", state, read_recent_events(broker, "told", state))


@pytest.fixture(scope="module")
def seen() -> RunStatus:
    """The whole ledger."""
    return status_of(whole_run(), events())


def test_the_object_is_json_and_has_every_field_of_the_contract(seen: RunStatus) -> None:
    """A metric that is not a number is null, because JSON has no NaN."""
    back = json.loads(json.dumps(seen.to_dict(), allow_nan=False))
    assert back.keys() >= FIELDS
    assert back["metrics"] == {"accuracy": 0.75, "odd": None}
    assert back["workers"][0].keys() >= {"name", "incarnation", "clock", "contributions", "state"}


def test_what_the_ledger_decides_is_exact(seen: RunStatus) -> None:
    """Counted by hand from the ledger."""
    assert (seen.uuid, seen.version, seen.steps, seen.term) == (UUID.hex(), 3, 3, 1)
    assert (seen.digest, seen.parameters_digest, seen.digest_version) == (STATE.hex(), PARAMETERS.hex(), 3)
    assert (seen.mode, seen.topology, seen.state) == ("sync", "eventual", "ended")
    assert (seen.samples, seen.loss, seen.staleness) == (4 * 32, 0.5, {"0": 4})
    assert (seen.rejected, seen.void, seen.metrics_version) == (1, 1, 3)
    assert seen.ended is not None
    assert (seen.ended.reason, seen.ended.failure) == ("reached version 3", "")


def test_wire_bytes_are_the_payload_of_what_was_settled_and_published(seen: RunStatus) -> None:
    """Four deltas that were used and one that was rejected, and three versions."""
    assert seen.wire_bytes == (4 + 1 + 3) * ELEMENTS * 4


def test_workers_have_facts_of_the_ledger_and_of_their_heartbeats(seen: RunStatus) -> None:
    """A removed one keeps its counts and says why it is gone."""
    first, second = seen.workers
    assert (first.name, first.clock, first.contributions, first.state, first.waiting_share) == (
        "worker-1", 3, 3, "done", 0.25,
    )  # fmt: skip
    assert (second.incarnation, second.clock, second.contributions, second.skips) == (SECOND.hex(), 2, 1, 1)
    assert (second.rejections, second.state, second.note) == (1, "removed", "no heartbeat in 12 ticks")


def test_servers_and_their_counters_come_from_events(seen: RunStatus) -> None:
    """Shards follow from the partitions that a server says it owns."""
    assert [(one.name, one.partitions, one.shards) for one in seen.servers] == [
        ("server-1", (0, 2), (0, 2)),
        ("server-2", (1, 3), (1, 3)),
    ]
    assert (seen.duplicates, seen.undecodable) == (2, 1)


def test_without_any_event_the_ledger_still_tells_the_run() -> None:
    """Events are deleted by time; then nothing is known of servers, and nothing is made up."""
    seen = status_of(whole_run())
    assert (seen.version, seen.servers, seen.duplicates) == (3, (), 0)
    assert seen.workers[0].waiting_share is None


def test_what_cannot_be_is_neither_printed_nor_put_into_json() -> None:
    """A share of time that is no number, and names that would write on the terminal what they like."""
    said: list[Event] = [
        beat("worker-1", FIRST, waiting=float("nan")),
        server("\x1b[2J", (0,), {}),
        server("../x", (1,), {}),
    ]
    seen = status_of(whole_run(), said)
    assert json.loads(json.dumps(seen.to_dict(), allow_nan=False))["workers"][0]["waiting_share"] == 0.0
    assert seen.servers == ()


def test_a_run_in_training_tells_the_silent_from_the_living() -> None:
    """Members are judged by the newest event, not by this machine's clock."""
    ledger = Ledger().start().version(1)
    seen = status_of(ledger, [one for one in events() if getattr(one, "member", "") != "worker-2"])
    assert (seen.state, seen.ended, seen.digest, seen.loss) == ("running", None, None, None)
    assert [one.state for one in seen.workers] == ["live", "silent"]
    assert [one.state for one in seen.servers] == ["live", "live"]


def test_a_run_without_a_start_is_empty_and_has_every_field() -> None:
    """Its topics exist, its ledger holds nothing."""
    seen = status_of(Ledger())
    assert (seen.state, seen.uuid, seen.version, seen.workers) == ("empty", None, 0, ())
    assert seen.to_dict().keys() >= FIELDS
    assert (
        status_lines(seen)[2]
        == f"state       empty: not begun; that takes a worker, and a server: driftline server {seen.run}"
    )


def test_a_run_that_waits_for_workers_names_the_command_that_shows_them() -> None:
    """They are no members yet, so the table has none of them."""
    seen = dataclasses.replace(status_of(Ledger()), state="waiting")
    assert status_lines(seen)[2].endswith(
        f"waiting for its first workers; who is here already: driftline top {seen.run}"
    )


def test_the_table_for_people_names_everything(seen: RunStatus) -> None:
    """The words that a reader looks for."""
    text = "\n".join(status_lines(seen))
    for word in ("accuracy 0.7500", STATE.hex(), "ended: reached version 3", "worker-2", "1 rejected", "2 duplicates"):
        assert word in text
    assert "worker-2 was removed: no heartbeat in 12 ticks" in text


def test_the_summary_names_contributions_and_shards(seen: RunStatus) -> None:
    """Version, end and times stand in the first line."""
    text = "\n".join(summary_lines(seen, 2.0, 9.5))
    assert "run told ended at version 3: 2.0 s of training, 9.5 s in all" in text
    assert "3 contributions" in text
    assert "shards 0, 2" in text


@pytest.mark.parametrize(
    ("staleness", "words"),
    [
        ({}, "-"),
        ({"0": 900}, "0 versions in all of 900 contributions"),
        ({"0": 3, "1": 1}, "at most 1 version, 0.2 on average, of 4 contributions"),
        ({"0": 500, "10": 1500}, "at most 10 versions, 7.5 on average, of 2,000 contributions"),
    ],
)
def test_staleness_is_one_short_line_however_many_kinds_there_are(
    seen: RunStatus, staleness: dict[str, int], words: str
) -> None:
    """A run without bounds has dozens."""
    shown = dataclasses.replace(seen, staleness=staleness)
    for lines in (status_lines(shown), summary_lines(shown, 2.0, 9.5)):
        assert [line.partition("staleness")[2].strip() for line in lines if "staleness" in line] == [words]


def test_the_time_of_a_run_that_was_gone_on_with_is_no_riddle(seen: RunStatus) -> None:
    """It began before the command did."""
    head = summary_lines(seen, 78.8, 58.7)[0]
    assert head == "run told ended at version 3: 78.8 s after it began, 58.7 s of them in this command"


@pytest.mark.parametrize(("numbers", "short"), [((), ""), ((3,), "3"), ((0, 1, 2, 7), "0-2, 7"), ((0, 2), "0, 2")])
def test_shards_are_written_short(numbers: tuple[int, ...], short: str) -> None:
    """Large models have hundreds."""
    assert ranges(numbers) == short


def test_training_time_is_measured_by_the_brokers_clock() -> None:
    """From the first join to the end, however late it is read."""
    clock = ManualClock()
    broker = MemoryBroker(clock.now_s)
    write(broker, "told", whole_run().values[:3])
    clock.advance(2.5)
    write(broker, "told", whole_run().values[3:])
    assert training_seconds(broker, "told", read_ledger(broker, "told")) == 2.5
    assert training_seconds(broker, "told", RunState()) == 0.0
