"""Leases as the ledger tells them: what no coordinator writes ends every reader, and people are told the rest."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from driftline.broker.port import Record
from driftline.cli.screens.tables import status_lines
from driftline.consumers.coordinator.decisions import _rejection
from driftline.consumers.coordinator.evidence import Evidence
from driftline.errors import IntegrityError
from driftline.ledger.rejection_reasons import reason_word
from driftline.ledger.run_state import RunState
from driftline.observe.records.annotated_ledger import AnnotatedLedger
from driftline.observe.records.entry_text import describe_entry
from driftline.observe.records.version_view import view_version
from driftline.observe.run.recent_events import RecentEvents
from driftline.observe.run.status import build_status
from driftline.observe.run.waiting import waited_for
from driftline.replay.verify.ledger import LedgerProof
from driftline.schemas.codec import encode
from driftline.schemas.records import Grant, GroupId, Lease, Membership, Rejection, Removal, SampleRange, Skip, Use
from driftline.schemas.run.consistency import Consistency
from driftline.schemas.run.data import DataConfig
from tests.support.small_ledger import CONFIG, FIRST, G1, G2, SECOND, UUID, Ledger, beat, use

DATA = DataConfig(samples=10, batch_size=2, block=4, epochs=1)


def places(start: int, stop: int, epoch: int = 0) -> SampleRange:
    return SampleRange(epoch=epoch, start=start, count=stop - start)


def read(group: GroupId, clock: int, *samples: SampleRange, kind: str = "delta") -> Use:
    """Return a settled clock and what it has used up."""
    return replace(use(group, clock, kind=kind), samples=samples)


def lease(ledger: Ledger, *grants: tuple[GroupId, SampleRange]) -> Ledger:
    return ledger.add(Lease, grants=tuple(Grant(group=group, samples=samples) for group, samples in grants))


@pytest.fixture
def ledger() -> Ledger:
    """Two workers with five samples each; one has used two, the other has discarded two."""
    ledger = Ledger(replace(CONFIG, steps=0, data=DATA)).start()
    lease(ledger, (G1, places(0, 5)), (G2, places(5, 10)))
    return ledger.version(1, read(G1, 1, places(0, 2)), read(G2, 1, places(5, 7), kind="skip"))


def fold(ledger: Ledger) -> RunState:
    state = RunState()
    for offset, value in enumerate(ledger.values):
        state.read(offset, value)
    return state


REMOVAL = (Removal(group=G2, worker="worker-2", reason="left"),)


@pytest.mark.parametrize(
    ("goes_on", "said"),
    [
        (lambda one: one.version(2, read(G1, 2, places(0, 1))), "0…0 of epoch 0 are not leased to it"),
        (lambda one: one.version(2, read(G1, 2, places(7, 8))), "7…7 of epoch 0 are not leased to it"),
        (lambda one: one.version(2, read(G1, 2, places(2, 3), places(3, 4))), "overlap, touch"),
        (lambda one: one.version(2, read(G1, 2, places(3, 3))), "0 samples from place 3"),
        (
            lambda one: one.version(2, read(G1, 2, places(2, 4)), replace(read(G1, 3, places(3, 5)), base_version=1)),
            "are not leased to it",
        ),
        (lambda one: lease(one, (G1, places(7, 8))), "7…7 of epoch 0, which are not free"),
        (lambda one: lease(one, (G1, places(0, 2))), "0…1 of epoch 0, which are not free"),
        (lambda one: lease(one, (G1, places(0, 2, epoch=1))), "that epoch is not under way"),
        (lambda one: lease(one, (GroupId(9, 9), places(7, 8))), "which is no member"),
        (lambda one: one.add(Rejection, group=G2, clock=2, reason="not finite", burned=(places(0, 1),)), "not leased"),
    ],
)
def test_a_record_that_uses_or_leases_what_it_cannot_ends_every_reader(
    ledger: Ledger, goes_on: Callable[[Ledger], Ledger], said: str
) -> None:
    """Also a proof of the log, which names the record."""
    fold(ledger)
    goes_on(ledger)
    with pytest.raises(IntegrityError, match=said):
        fold(ledger)
    proof = LedgerProof()
    for offset, value in enumerate(ledger.values):
        proof.read(offset, value)
    first = proof.findings.first
    assert first is not None
    assert (first.verdict, first.offset) == ("integrity", len(ledger.values) - 1)


def test_what_a_removed_worker_held_can_be_leased_and_used(ledger: Ledger) -> None:
    """And then the run is over: each sample was consumed or discarded."""
    ledger.add(Membership, joins=(), removals=REMOVAL, raised=0)
    assert fold(ledger).leases.due() == (Grant(group=G1, samples=places(7, 10)),)
    lease(ledger, (G1, places(7, 10)))
    ledger.version(2, read(G1, 2, places(2, 5), places(7, 10)))
    state = fold(ledger)
    assert (state.leases.is_done, state.is_finished, state.leases.due()) == (True, True, ())
    assert (state.leases.consumed, state.leases.discarded) == (8, 2)


def test_a_rejected_contribution_leaves_its_samples_with_its_worker_unless_they_are_discarded(ledger: Ledger) -> None:
    ledger.add(Rejection, group=G1, clock=2, reason="stale by 3 versions, at most 2 are allowed")
    assert fold(ledger).leases.held(G1) == (places(2, 5),)
    ledger.add(Rejection, group=G1, clock=3, reason="not finite", burned=(places(2, 3),))
    assert fold(ledger).leases.held(G1) == (places(3, 5),)


def skip(state: RunState, clock: int, *samples: SampleRange) -> Skip:
    return Skip(
        run=UUID,
        group=G1,
        clock=clock,
        base_version=1,
        base_head=state.heads[1],
        cursor=0,
        reason="overflow",
        samples=samples,
    )


def test_a_clock_that_claims_what_another_one_has_read_waits_for_it_and_is_then_refused(ledger: Ledger) -> None:
    """No version may use a sample twice, whatever a worker says."""
    state = fold(ledger)
    evidence = Evidence(state)
    evidence.add(skip(state, 2, places(2, 4)), 0)
    evidence.add(skip(state, 3, places(3, 5)), 0)
    assert evidence.pending(G1) == [2]
    ledger.version(2, read(G1, 2, places(2, 4), kind="skip"))
    state.read(len(ledger.values) - 1, ledger.values[-1])
    evidence.forget_settled()
    assert evidence.refusal((G1, 3)) == "its samples 3…4 of epoch 0 are not leased to it"
    assert reason_word(evidence.refusal((G1, 3))) == "samples"
    decided = _rejection(state, evidence, 0)
    assert decided is not None
    assert (decided.clock, decided.burned) == (3, ())


def test_samples_in_no_order_are_refused_before_they_count(ledger: Ledger) -> None:
    state = fold(ledger)
    evidence = Evidence(state)
    evidence.add(skip(state, 2, places(4, 5), places(2, 3)), 0)
    assert evidence.counters["events_refused"] == 1


def test_status_shows_what_is_leased_used_and_discarded(ledger: Ledger) -> None:
    ledger.add(Rejection, group=G1, clock=2, reason="not finite", burned=(places(2, 3),))
    annotated = AnnotatedLedger()
    for offset, value in enumerate(ledger.values):
        annotated.read(Record(topic="ledger", partition=0, offset=offset, key=None, value=value, timestamp_ms=0))
    words = [describe_entry(entry, annotated) for entry in annotated.entries]
    assert "samples of epoch 0 are leased: 5 to worker-1, 5 to worker-2" in words
    assert words[-1] == "clock 2 of worker-1 is rejected: not finite; 1 sample discarded"
    assert view_version("told", 1, annotated).uses[0].samples == ("0…1 of epoch 0",)
    seen = build_status("told", annotated.state, RecentEvents(UUID))
    assert (seen.epoch, seen.epochs, seen.consumed, seen.discarded, seen.burned) == (0, 1, 2, 3, 3)
    assert any("32; 0 of 1 epochs used up, 3 discarded" in line for line in status_lines(seen))


def test_a_worker_without_samples_waits_for_those_that_hold_some() -> None:
    """In modes that count; by the clock rule it skips, and waits for whom the others wait."""
    by_count = Consistency(mode="async", buffer=1, weighting="inverse")
    for bounds, waited in ((by_count, ("worker-2",)), (Consistency(), ())):
        ledger = Ledger(replace(CONFIG, steps=0, data=DATA, consistency=bounds)).start()
        lease(ledger, (G1, places(0, 5)), (G2, places(5, 10)))
        ledger.version(1, read(G1, 1, places(0, 5)), read(G2, 1, places(5, 6)))
        live = RecentEvents(UUID)
        for worker, incarnation in (("worker-1", FIRST), ("worker-2", SECOND)):
            live.read(encode(beat(worker, incarnation, clock=1)), 10)
        assert waited_for(fold(ledger), live, 5) == {"worker-1": waited, "worker-2": ()}


def test_a_run_that_leases_nothing_says_nothing_of_epochs() -> None:
    seen = build_status("told", fold(Ledger().start()), RecentEvents(UUID))
    assert (seen.epoch, seen.epochs, seen.consumed, seen.discarded) == (None, None, None, None)
    assert not any("epoch" in line for line in status_lines(seen))
