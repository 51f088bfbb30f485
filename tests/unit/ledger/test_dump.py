"""Checkpoints carry what the ledger adds up to, and every reader compares it with its own."""

from dataclasses import replace

import pytest

from driftline.broker.topics import Stream
from driftline.consumers.coordinator import run_decisions
from driftline.errors import IntegrityError
from driftline.ledger.restore import NotRestorable, restore
from driftline.ledger.run_state import RunState
from driftline.schemas.codec import decode, encode
from driftline.schemas.records import Checkpoint, FrozenState, RunStart
from tests.support.small_model import small_run
from tests.support.state_difference import state_difference
from tests.support.still_run import StillRun
from tests.unit.coordinator.test_checkpoints import checkpoints, records


@pytest.fixture(scope="module")
def run() -> StillRun:
    """Return a run that is over, with checkpoints of versions 4 and 8."""
    played = small_run(steps=9, snapshot_every=4)
    played.play()
    return played


def ledger(run: StillRun) -> list[bytes]:
    """Return the values of its ledger."""
    return [record.value or b"" for record in records(run, Stream.LEDGER)]


def fold(values: list[bytes], state: RunState | None = None) -> RunState:
    """Fold a ledger to its end."""
    state = state or RunState()
    for offset in range(state.next_offset, len(values)):
        state.read(offset, values[offset])
    return state


def last(values: list[bytes]) -> tuple[int, Checkpoint]:
    """Return the offset of the last checkpoint, and the checkpoint."""
    found = [(offset, one) for offset, value in enumerate(values) if isinstance(one := decode(value), Checkpoint)]
    return found[-1]


def start(values: list[bytes]) -> RunStart:
    """Return how the run began."""
    return next(one for value in values if isinstance(one := decode(value), RunStart))


def test_from_a_checkpoint_the_same_is_folded(run: StillRun) -> None:
    values = ledger(run)
    whole = fold(values)
    whole.forget_before(8)
    _, checkpoint = last(values)
    restored = fold(values, restore(checkpoint, start(values)))
    restored.forget_before(8)
    assert state_difference(whole, restored) == ""
    assert restored.totals.contributions == {"ada": 9, "bob": 9}
    assert restored.used_at


def _lies(state: FrozenState) -> dict[str, FrozenState]:
    first, *others = state.groups
    return {
        "groups": replace(state, groups=(replace(first, settled_clock=first.settled_clock - 1), *others)),
        "leases": replace(state, leases=()),
        "term": replace(state, term=state.term + 1),
        "heads": replace(state, heads=state.heads[1:]),
        "totals": replace(state, totals=replace(state.totals, samples=state.totals.samples + 1)),
    }


@pytest.mark.parametrize("lie", ["groups", "leases", "term", "heads", "totals"])
def test_a_state_that_is_not_the_ledgers_ends_every_reader(run: StillRun, lie: str) -> None:
    """The record counts: its parent is the head, its term the current one."""
    values = ledger(run)
    offset, checkpoint = last(values)
    forged = encode(replace(checkpoint, state=(_lies(checkpoint.state[0])[lie],)))
    state = fold(values[:offset])
    with pytest.raises(IntegrityError, match=rf"ledger offset {offset}: .* the {lie} of its state of version 8 are"):
        state.read(offset, forged)


def test_a_checkpoint_of_an_earlier_release_counts(run: StillRun) -> None:
    values = ledger(run)
    offset, checkpoint = last(values)
    state = fold(values[:offset])
    state.read(offset, encode(replace(checkpoint, state=())))
    assert state.checkpoint == replace(checkpoint, state=())


@pytest.mark.parametrize("lie", ["groups", "leases", "heads"])
def test_what_no_fold_comes_to_is_not_restored(run: StillRun, lie: str) -> None:
    values = ledger(run)
    _, checkpoint = last(values)
    state = checkpoint.state[0]
    broken = {
        "groups": replace(state, groups=state.groups[:1] * 2),
        "leases": replace(state, leases=tuple(replace(one, kind=1) for one in state.leases)),
        "heads": replace(state, heads=state.heads[1:]),
    }
    with pytest.raises(NotRestorable, match="the state of version 8 cannot be"):
        restore(replace(checkpoint, state=(broken[lie],)), start(values))


def test_a_state_that_does_not_fit_is_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = small_run(steps=5, snapshot_every=4)
    whole.play()
    [full] = checkpoints(whole)
    monkeypatch.setattr(run_decisions, "MAX_RECORD_BYTES", len(encode(full)) - 1)
    run = small_run(steps=5, snapshot_every=4)
    run.play()
    assert checkpoints(run) == [replace(full, state=(), parent=checkpoints(run)[0].parent)]
    assert run.servers["server-1"].coordinator.evidence.counters["checkpoints_too_large"] == 1
