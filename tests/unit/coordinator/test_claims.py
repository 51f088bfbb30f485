"""Who may take the place of a live worker of the same name."""

from driftline.consumers.coordinator.evidence import Evidence
from driftline.consumers.coordinator.pending_members import REPEATS
from driftline.ledger.run_state import RunState
from driftline.schemas.records import GroupId, Leave, Ready, RunStart
from tests.support.small_ledger import LAYOUT

RUN, OLD, NEW = bytes(16), b"o" * 16, b"n" * 16
PATIENCE = 12
"""Ticks of silence after which a member counts as gone."""


def _evidence() -> Evidence:
    state = RunState()
    state.has_begun, state.start = (
        True,
        RunStart(
            term=1,
            parent=bytes(32),
            run=RUN,
            name="run",
            config="",
            layout="",
            layout_fingerprint=bytes(32),
            partitions=1,
            shards=(),
            proposer="w",
        ),
    )
    state.layout = LAYOUT
    state.joined["w", OLD] = GroupId(1, 0)
    return Evidence(state)


def _ready(incarnation: bytes) -> Ready:
    return Ready(run=RUN, worker="w", incarnation=incarnation, version=0)


def test_one_ready_may_be_a_late_one_of_a_process_that_is_dead() -> None:
    evidence = _evidence()
    evidence.add(_ready(NEW), ticks_read=5)
    evidence.add(_ready(NEW), ticks_read=5)
    assert evidence.successor(("w", OLD), 5, PATIENCE) is None


def test_who_says_ready_tick_after_tick_replaces_a_member_of_its_name() -> None:
    evidence = _evidence()
    for tick in range(REPEATS):
        evidence.add(_ready(NEW), ticks_read=tick)
    assert evidence.successor(("w", OLD), REPEATS, PATIENCE) == ("w", NEW)
    assert evidence.successor(("another", OLD), REPEATS, PATIENCE) is None


def test_the_member_itself_is_not_its_own_successor() -> None:
    evidence = _evidence()
    for tick in range(REPEATS):
        evidence.add(_ready(OLD), ticks_read=tick)
    assert evidence.successor(("w", OLD), REPEATS, PATIENCE) is None


def test_a_claim_counts_from_zero_after_silence_and_in_another_term() -> None:
    evidence = _evidence()
    for tick in (0, 1, 100):
        evidence.add(_ready(NEW), ticks_read=tick)
    assert evidence.successor(("w", OLD), 100, PATIENCE) is None
    evidence.forget_lives()
    evidence.add(_ready(NEW), ticks_read=0)
    assert evidence.successor(("w", OLD), 0, PATIENCE) is None


def test_a_claim_whose_process_has_died_meanwhile_takes_no_place() -> None:
    evidence = _evidence()
    for tick in range(REPEATS):
        evidence.add(_ready(NEW), ticks_read=tick)
    last = REPEATS - 1
    assert evidence.successor(("w", OLD), last + PATIENCE - 1, PATIENCE) == ("w", NEW)
    assert evidence.successor(("w", OLD), last + PATIENCE, PATIENCE) is None


def test_a_claim_that_has_left_takes_no_place() -> None:
    evidence = _evidence()
    for tick in range(REPEATS):
        evidence.add(_ready(NEW), ticks_read=tick)
    evidence.add(Leave(run=RUN, worker="w", incarnation=NEW, reason="done"), ticks_read=REPEATS)
    assert evidence.successor(("w", OLD), REPEATS, PATIENCE) is None
