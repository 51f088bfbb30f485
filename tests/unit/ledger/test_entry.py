"""Newcomers find the last checkpoint that counts, and read from there on; or the ledger from its beginning."""

import os
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from driftline.consumers.server.server import Server
from driftline.consumers.server.serving import SERVER_GROUPS
from driftline.errors import BrokerUnreachable
from driftline.ledger.entering.checkpoint import enter_ledger
from driftline.ledger.entering.entry import Search, Value, find_entry
from driftline.ledger.entering.reading import read_ledger, read_present
from driftline.observe.versions import load_newest
from driftline.producers.session import Phase, WorkerSession
from driftline.runtime.shell import Shell
from driftline.schemas.codec import decode, encode
from driftline.schemas.records import Checkpoint, FrozenState, Version
from tests.support.small_model import small_run
from tests.support.state_difference import state_difference
from tests.support.still_run import StillRun
from tests.unit.ledger.test_dump import fold, last, ledger


@pytest.fixture(scope="module")
def run() -> StillRun:
    """Return a run that is over, with checkpoints of versions 4, 8 … 40."""
    played = small_run(steps=41, snapshot_every=4)
    played.play()
    return played


def find(values: list[bytes], block: int = 8) -> Search:
    """Look for an entry in a ledger."""

    def look(first: int, stop: int) -> Iterator[Value]:
        yield from enumerate(values[first:stop], first)

    return find_entry(look, 0, len(values), block)


def test_the_last_checkpoint_is_found_from_the_end(run: StillRun) -> None:
    values = ledger(run)
    offset, checkpoint = last(values)
    for block in (1, 8, 256):
        search = find(values, block)
        assert search.entry is not None
        assert (search.entry.offset, search.entry.record, search.passed_over) == (offset, checkpoint, ())
        state, whole = search.state(), fold(values[: offset + 1])
        whole.forget_before(checkpoint.version)
        assert state_difference(state, whole) == ""
        assert state.began_at == 40
    assert find(values).looked_at < len(values) / 4


def test_a_young_run_is_read_from_its_beginning(run: StillRun) -> None:
    values = ledger(run)
    first = next(offset for offset, value in enumerate(values) if isinstance(decode(value), Checkpoint))
    search = find(values[:first])
    assert (search.entry, search.passed_over) == (None, ())
    assert search.state().next_offset == 0


def test_a_run_without_checkpoints_is_not_read_twice() -> None:
    run = small_run(steps=41, snapshot_every=0)
    run.play()
    values = ledger(run)
    assert find(values).entry is None
    assert find(values).looked_at <= 8 + 64


def _lies(state: FrozenState, values: list[bytes]) -> dict[str, FrozenState]:
    version = decode(values[state.next_offset - 1])
    assert isinstance(version, Version)
    return {
        "stands at": replace(state, next_offset=len(values) + 5),
        "its run at": replace(state, start_offset=-1),
        "no Version": replace(state, next_offset=state.next_offset - 1),
        "no RunStart": replace(state, start_offset=state.start_offset + 1),
        "of term": replace(state, term=state.term + 1),
        "head": replace(state, head=version.parent),
        "cannot be": replace(state, groups=state.groups[:1]),
        "does not count": state,
    }


@pytest.mark.parametrize(
    "why", ["stands at", "its run at", "no Version", "no RunStart", "of term", "head", "cannot be", "does not count"]
)
def test_a_checkpoint_that_is_no_entry_is_passed_over_and_counted(run: StillRun, why: str) -> None:
    """It is put behind the last one, whose place is taken then; here it is void for every reader of the ledger."""
    values = ledger(run)
    offset, checkpoint = last(values)
    lie = _lies(checkpoint.state[0], values)[why]
    forged = encode(replace(checkpoint, parent=os.urandom(32), state=(lie,)))
    search = find([*values, forged])
    assert search.entry is not None
    assert search.entry.offset == offset
    assert why in search.passed_over[0]
    assert search.state().passed_over == 1


def test_checkpoints_of_an_earlier_release_are_no_entries(run: StillRun) -> None:
    values = ledger(run)
    bare = [
        encode(replace(record, state=())) if isinstance(record := decode(value), Checkpoint) else value
        for value in values
    ]
    assert find(bare).entry is None
    assert find(bare).passed_over == ()


def test_a_server_that_comes_reads_the_tail(run: StillRun) -> None:
    """It rebuilds the same bits, and has read a part of the ledger only."""
    begun = enter_ledger(run.broker, "small").state()
    assert begun.began_at == 40
    server = Server("new", b"n" * 16, random.Random(1), begun)  # noqa: S311 - a test
    shell = Shell(run.broker, "small", server, "new", SERVER_GROUPS)
    try:
        while shell.finished is None:
            shell.step(0.01)
    finally:
        shell.close()
    assert not shell.finished.failure
    assert server.state.version == 41
    read = next(one for one in shell.samples() if one.metric.name == "driftline_records_total" and _is_ledger(one))
    assert read.value == read_ledger(run.broker, "small").next_offset - last(ledger(run))[0] - 1


def _is_ledger(sample: object) -> bool:
    return getattr(sample, "labels", {}) == {"stream": "ledger", "direction": "read"}


def test_a_worker_that_comes_late_knows_the_run_at_once(run: StillRun) -> None:
    offer = run.workers["ada"].offer
    state = enter_ledger(run.broker, "small").state()
    worker = WorkerSession("late", b"l" * 16, offer, b"r" * 16, state=state)
    worker.begin()
    assert worker.phase is Phase.WAITING
    other = replace(offer, config=replace(offer.config, steps=7))
    refused = WorkerSession("late", b"l" * 16, other, b"r" * 16, state=enter_ledger(run.broker, "small").state())
    refused.begin()
    assert refused.finished is not None
    assert "steps" in refused.finished.failure


def test_what_is_so_now_is_the_same_from_a_checkpoint(run: StillRun) -> None:
    whole, present = read_ledger(run.broker, "small"), read_present(run.broker, "small")
    for state in (whole, present):
        state.forget_before(40)
    assert state_difference(present, whole) == ""
    newest = load_newest(run.broker, "small", 10.0)
    assert (newest.number, newest.is_last) == (41, True)
    assert newest.loss > 0


def test_where_nothing_can_be_looked_up_it_is_the_beginning(
    run: StillRun, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away() -> None:
        raise BrokerUnreachable("no node answers")

    monkeypatch.setattr(run.broker, "reader", away)
    assert enter_ledger(run.broker, "small").entry is None
    assert "is read from its beginning: no node answers" in caplog.text
