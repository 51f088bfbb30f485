"""``driftline top``: one frame says where a run stands, who waits for whom, and fits the screen."""

import dataclasses
import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Sequence

import pytest
from rich.console import Console

from driftline.cli.screens.top import frame, plain_lines
from driftline.errors import TopicMissing
from driftline.observe.run.top_view import TopView
from driftline.observe.run.waiting import SERVERS
from driftline.observe.run.watch import RunWatch
from driftline.schemas.records import Event, Heartbeat, Leave, Rejection
from driftline.testing import ManualClock
from driftline.testing.memory import MemoryBroker
from tests.support.small_ledger import FIRST, G1, G2, SECOND, UUID, Ledger, beat, events, server, use, whole_run, write
from tests.support.small_model import small_run


def view_of(ledger: Ledger, said: Sequence[Event] = (), lines: int = 10) -> TopView:
    """Write a run and look at it as the command does."""
    broker = MemoryBroker()
    write(broker, "told", ledger.values, said)
    with RunWatch(broker, "told") as watch:
        watch.catch_up()
        return watch.view(lines)


def drawn(seen: TopView, width: int, height: int | None, quiet_s: float = 0.0) -> list[str]:
    """Return what stands on a screen."""
    console = Console(width=width, height=height, color_system=None, force_terminal=True)
    with console.capture() as captured:
        console.print(frame(seen, width, height, quiet_s))
    return [line.rstrip() for line in captured.get().splitlines()]


def waits(seen: TopView) -> dict[str, tuple[str, ...] | None]:
    return {row.name: row.waits_for for row in seen.workers}


def beats(*, clocks: tuple[int, int], versions: tuple[int, int] = (1, 1)) -> list[Event]:
    """Return the last words of both workers."""
    said = [beat("worker-1", FIRST, clock=clocks[0]), beat("worker-2", SECOND, clock=clocks[1])]
    return [dataclasses.replace(one, version=version) for one, version in zip(said, versions, strict=True)]


# -- who waits for whom ----------------------------------------------------------------------------------------------


def one_version() -> Ledger:
    """Return a run in lock-step at version 1."""
    return Ledger().start().version(1, use(G1, 1), use(G2, 1))


def test_a_worker_that_is_ahead_waits_for_those_behind() -> None:
    """Lock-step: one has spent its second clock, the other is at it."""
    assert waits(view_of(one_version(), beats(clocks=(2, 1)))) == {"worker-1": ("worker-2",), "worker-2": ()}


def test_when_every_worker_has_delivered_the_servers_are_waited_for() -> None:
    seen = view_of(one_version(), beats(clocks=(2, 2)))
    assert waits(seen) == {"worker-1": (SERVERS,), "worker-2": (SERVERS,)}


def test_without_the_newest_parameters_the_servers_are_waited_for() -> None:
    seen = view_of(one_version(), beats(clocks=(1, 1), versions=(0, 1)))
    assert waits(seen) == {"worker-1": (SERVERS,), "worker-2": ()}
    assert [row.behind for row in seen.workers] == [1, 0]


def test_a_worker_without_a_heartbeat_since_the_newest_version_has_no_known_wait() -> None:
    """What it does by now is not known, and is not made up."""
    clock, broker, ledger = ManualClock(), MemoryBroker(ManualClock().now_s), one_version()
    assert waits(view_of(ledger)) == {"worker-1": None, "worker-2": None}
    broker = MemoryBroker(clock.now_s)
    write(broker, "told", ledger.values[:3], beats(clocks=(1, 1), versions=(0, 0)))
    clock.advance(1.0)
    broker.producer().send("driftline.told.ledger", 0, ledger.values[3])
    with RunWatch(broker, "told") as watch:
        watch.catch_up()
        assert waits(watch.view(1)) == {"worker-1": None, "worker-2": None}


def test_no_worker_waits_once_a_run_is_over() -> None:
    assert waits(view_of(whole_run(), events())) == {"worker-1": None, "worker-2": None}


def test_a_worker_that_left_does_not_wait() -> None:
    leave = Leave(run=UUID, worker="worker-2", incarnation=SECOND, reason="stopped")
    seen = view_of(one_version(), [*beats(clocks=(2, 1)), leave])
    assert waits(seen) == {"worker-1": ("worker-2",), "worker-2": None}
    assert [one.state for one in seen.workers] == ["live", "left"]


# -- the frame -------------------------------------------------------------------------------------------------------


def test_a_run_in_training_shows_everything_that_a_reader_looks_for() -> None:
    run = small_run("small", steps=40)
    run.play(until_version=30)
    with RunWatch(run.broker, "small") as watch:
        watch.catch_up()
        seen = watch.view(10)
    assert seen.versions_per_s == pytest.approx(20, rel=0.5)  # a version takes two or three rounds of 20 ms
    assert [(row.name, row.staleness) for row in seen.workers] == [("ada", 0), ("bob", 0)]
    text = "\n".join(drawn(seen, 80, 24))
    for word in (
        "small  running  version 3",
        "versions/s",
        "ada ",
        "bob ",
        "server-1",
        "server-2",
        "distance",
        "q quits",
    ):
        assert word in text
    assert len(seen.ledger) == 10


@pytest.mark.parametrize("size", [(80, 24), (60, 14), (40, 10), (20, 6), (200, 60), (80, 4)])
@pytest.mark.parametrize("members", [(0, 0), (2, 2), (40, 1), (3, 40), (40, 40)])
def test_a_frame_fits_its_screen(size: tuple[int, int], members: tuple[int, int]) -> None:
    """No line is too long, and none pushes another one out."""
    width, height = size
    seen = view_of(
        one_version(), [*beats(clocks=(2, 1)), *(server(f"server-{n}", (n % 4,), {}) for n in range(members[1]))]
    )
    workers = [dataclasses.replace(seen.workers[0], name=f"worker-{n:02d}-{'x' * 30}") for n in range(members[0])]
    seen = dataclasses.replace(seen, workers=tuple(workers), failures={"undecodable": 3})
    lines = drawn(seen, width, height, quiet_s=9.0)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    if height >= 14:
        assert sum(line.startswith("worker-") for line in lines) >= min(members[0], 1)
        assert sum(line.startswith("server-") for line in lines) >= min(members[1], 1)
    if height >= 24:
        assert sum(line.startswith("worker-") for line in lines) >= min(members[0], 3)
        assert sum(line.startswith("server-") for line in lines) >= min(members[1], 1)
        assert members[0] + members[1] < 60 or any("more" in line for line in lines)


@pytest.mark.parametrize("width", [80, 60, 40, 30])
def test_a_narrow_screen_has_fewer_columns_and_no_half_numbers(width: int) -> None:
    """Clock 3,141 cut to ``3…`` would be another clock; who is who, and how far, is said to the end."""
    seen = view_of(one_version(), [*beats(clocks=(2, 1)), server("server-1", (0, 1, 2, 3), {})])
    workers = tuple(dataclasses.replace(one, clock=3141) for one in seen.workers)
    lines = drawn(dataclasses.replace(seen, workers=workers), width, 30)
    workers_at, servers_at = (
        next(n for n, line in enumerate(lines) if line.startswith(f"{of}  ")) for of in ("worker", "server")
    )
    assert lines[workers_at].split()[:3] == ["worker", "state", "clock"]
    assert [line.split()[:3] for line in lines[workers_at + 1 : servers_at - 1]] == [
        ["worker-1", "live", "3141"],
        ["worker-2", "live", "3141"],
    ]
    assert not any("…" in line for line in lines[workers_at : servers_at + 2])


def test_members_with_problems_are_shown_first_when_not_all_fit() -> None:
    """Of fifty workers the silent one is shown."""
    seen = view_of(one_version(), beats(clocks=(2, 1)))
    first = seen.workers[0]
    workers = [dataclasses.replace(first, name=f"w{n:02d}", state="silent" if n == 49 else "live") for n in range(50)]
    crowd = dataclasses.replace(seen, workers=tuple(workers))
    assert any(line.startswith("w49     silent ") for line in drawn(crowd, 80, 24))


def test_failures_contradictions_and_silence_are_shown() -> None:
    ledger = one_version()
    ledger.version(7)
    said: list[Event] = [server("server-1", (0,), {"undecodable": 2, "duplicates": 5})]
    text = "\n".join(drawn(view_of(ledger, said), 120, 30, quiet_s=12.3))
    assert "failures  undecodable 2" in text
    assert "the ledger contradicts itself: ledger offset 4: version 7 follows version 1" in text
    assert "nothing was written for 12 s" in text


def test_words_from_the_log_write_nothing_else_on_the_terminal() -> None:
    """Any client that may write to the ledger chooses the reason of a rejection."""
    ledger = one_version()
    ledger.add(Rejection, group=G2, clock=2, reason="\x1b[2J\nowned")
    lines = drawn(view_of(ledger), 120, 30)
    assert not any("\x1b" in line for line in lines)
    assert any("clock 2 of worker-2 is rejected: \ufffd[2J\ufffdowned" in line for line in lines)


def test_a_frame_that_is_printed_shows_all_and_no_keys() -> None:
    lines = plain_lines(view_of(whole_run(), events()))
    assert any(line.startswith("worker-2  removed") for line in lines)
    assert "q quits" not in lines


def test_the_object_is_that_of_status_with_more() -> None:
    seen = view_of(one_version(), [*beats(clocks=(2, 1)), server("server-1", (0, 1, 2, 3), {})])
    back = json.loads(json.dumps(seen.to_dict(), allow_nan=False))
    assert {"run", "uuid", "version", "digest", "metrics"} <= back.keys()
    assert back["workers"][0] == {
        **dataclasses.asdict(seen.workers[0]), "staleness": 0, "behind": 0, "waits_for": ["worker-2"],
    }  # fmt: skip
    assert back["servers"][0]["lag"] == 0
    assert [line["offset"] for line in back["ledger"]] == [0, 1, 2, 3]


def test_progress_is_shown_before_the_first_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long ledger is read from its beginning, and an empty screen looks like a hang."""
    broker = MemoryBroker()
    ledger = whole_run()
    write(broker, "told", ledger.values, events())
    monkeypatch.setattr("driftline.observe.run.watch.SAY_EVERY_S", -1.0)
    said: list[str] = []
    with RunWatch(broker, "told") as watch:
        watch.catch_up(said.append)
    assert said
    assert all(line.startswith("reading driftline.told.ledger: at offset ") for line in said)


def test_a_run_that_has_not_started_has_a_frame() -> None:
    seen = view_of(Ledger())
    assert (seen.state, seen.versions_per_s, seen.ledger) == ("empty", None, ())
    assert drawn(seen, 80, 24)[0] == "told  empty  version 0"


# -- following -------------------------------------------------------------------------------------------------------


def test_what_comes_later_is_seen_later() -> None:
    """The same watch, from before the start to the end, events included."""
    broker, ledger = MemoryBroker(), whole_run()
    write(broker, "told", [])
    producer = broker.producer()
    with RunWatch(broker, "told") as watch:
        watch.catch_up()
        assert watch.view(5).state == "empty"
        for value in ledger.values[:4]:
            producer.send("driftline.told.ledger", 0, value)
        watch.read(0.2)
        assert (watch.view(5).state, watch.view(5).version) == ("running", 1)
        for value in ledger.values[4:]:
            producer.send("driftline.told.ledger", 0, value)
        write_events(broker, events())
        watch.read(0.2)
        seen = watch.view(5)
    assert (seen.state, seen.version) == ("ended", 3)
    assert [one.name for one in seen.servers] == ["server-1", "server-2"]


def write_events(broker: MemoryBroker, said: Sequence[Event]) -> None:
    from driftline.schemas.codec import encode  # noqa: PLC0415 - one use

    for event in said:
        broker.producer().send("driftline.told.events", 0, encode(event))


def test_a_run_that_is_deleted_under_the_watch_is_an_error_with_its_name() -> None:
    broker = MemoryBroker()
    write(broker, "told", whole_run().values)
    with RunWatch(broker, "told") as watch:
        watch.catch_up()
        broker.admin().delete(["driftline.told.ledger", "driftline.told.events"])
        with pytest.raises(TopicMissing, match=r"driftline\.told\.(ledger|events)"):
            watch.read(0.5)


# -- keys ------------------------------------------------------------------------------------------------------------

WAIT_FOR_KEY = """
import sys
from driftline.cli.screens.keyboard import keys
with keys() as pressed:
    print("ready", flush=True)
    for _ in range(200):
        key = pressed(0.1)
        if key:
            sys.exit(f"got {key}")
"""


@pytest.mark.parametrize(("typed", "end"), [(b"q", b"got q"), (b"\x03", b"KeyboardInterrupt")])
def test_a_key_comes_without_return_and_ctrl_c_stays_ctrl_c(typed: bytes, end: bytes) -> None:
    """On a real pseudo-terminal, which is put back as it was."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", WAIT_FOR_KEY], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        preexec_fn=_take_terminal,  # noqa: PLW1509 - one thread, and the terminal must become its own
    )  # fmt: skip
    os.close(theirs)
    try:
        assert _read_until(ours, b"ready")
        os.write(ours, typed)
        assert _read_until(ours, end)
        assert process.wait(10) != 0
    finally:
        process.kill()
        os.close(ours)


def _take_terminal() -> None:
    import fcntl  # noqa: PLC0415 - in the child
    import termios  # noqa: PLC0415

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _read_until(descriptor: int, word: bytes, timeout_s: float = 30.0) -> bool:
    seen, deadline_s = b"", time.monotonic() + timeout_s
    while word not in seen and time.monotonic() < deadline_s:
        ready, _, _ = select.select([descriptor], [], [], 0.2)
        if ready:
            try:
                seen += os.read(descriptor, 4096)
            except OSError:  # the other side has closed
                break
    return word in seen


def test_before_the_start_it_shows_newcomers_and_the_number_awaited() -> None:
    """Two are needed, one is ready; who has joined is no newcomer."""
    ledger = Ledger()
    ledger.values = Ledger().start().values[:2]
    seen = view_of(ledger, [beat("worker-1", FIRST)])
    assert (seen.awaited, seen.newcomers) == (2, ("worker-1",))
    assert "waiting for 2 workers; here so far: worker-1" in drawn(seen, 80, 24)
    assert "waiting for 2 workers; here so far: no worker yet" in drawn(view_of(ledger), 80, 24)
    assert view_of(one_version(), beats(clocks=(1, 1))).newcomers == ()


def test_a_heartbeat_of_a_stranger_makes_it_no_member() -> None:
    """Only the ledger says who is one; the stranger wants to be."""
    stranger = Heartbeat(
        run=UUID, member="stranger", incarnation=bytes(16), role="worker", version=1, clock=9, waiting_share=0.5
    )
    seen = view_of(one_version(), [stranger])
    assert [row.name for row in seen.workers] == ["worker-1", "worker-2"]
    assert "about to join: stranger" in drawn(seen, 80, 24)
