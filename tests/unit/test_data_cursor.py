"""Where a worker goes on in its data."""

import dataclasses

import numpy as np
import pytest

from driftline.consumers.follower import Model
from driftline.producers.deltas import Gradient
from driftline.producers.proposal import Offer
from driftline.schemas.local_work import LocalWork
from driftline.schemas.records import GroupId, Join, Membership, Removal, Use
from driftline.training.data import part_of
from driftline.training.session import WorkerSession
from tests.unit.told_run import CONFIG, ELEMENTS, FIRST, G1, G2, LAYOUT, Ledger, use

NAMES = ("worker-1", "worker-2")
AGAIN = b"3" * 16


def read(group: GroupId, clock: int, cursor: int, kind: str = "delta") -> Use:
    """Return a settled clock behind which so many batches have been read."""
    return dataclasses.replace(use(group, clock, kind=kind), cursor=cursor)


def session(name: str, ledger: Ledger, local: LocalWork, incarnation: bytes = AGAIN) -> WorkerSession:
    """Return a worker that has read a ledger."""
    offer = Offer(
        config=dataclasses.replace(CONFIG, local=local), layout=LAYOUT, masters=np.zeros(ELEMENTS, dtype=np.float32)
    )
    one = WorkerSession(name, incarnation, offer, bytes(16))
    for offset, value in enumerate(ledger.values):
        one.state.read(offset, value)
    return one


@pytest.fixture
def ledger() -> Ledger:
    """The first worker reads 5 and 7 batches in two clocks of fixed time, the second 1, and has a clock skipped."""
    ledger = Ledger().start()
    ledger.version(1, read(G1, 1, 5), read(G2, 1, 1))
    return ledger.version(2, read(G1, 2, 12), read(G2, 2, 3, kind="skip"))


BOXED = LocalWork(clock_s=2.0)


def test_a_new_start_of_a_worker_goes_on_where_the_ledger_says_that_it_was(ledger: Ledger) -> None:
    """Also after a removal, and by its name alone: the incarnation is another one."""
    assert [session(name, ledger, BOXED).cursor for name in NAMES] == [12, 3]
    ledger.add(Membership, joins=(), removals=(Removal(group=G2, worker="worker-2", reason="gone"),), raised=0)
    ledger.add(Membership, joins=(Join(worker="worker-2", incarnation=AGAIN),), removals=(), raised=0)
    assert session("worker-2", ledger, BOXED).cursor == 3


def test_a_newcomer_goes_on_where_the_worker_is_whose_part_it_shares(ledger: Ledger) -> None:
    cursors = {name: session(name, ledger, BOXED).cursor for name in ("ada", "bob", "eve", "joe", "ann", "tom")}
    assert cursors == {name: (12, 3)[part_of(name, NAMES).rank] for name in cursors}
    assert set(cursors.values()) == {12, 3}


def test_clocks_under_way_have_read_their_batches(ledger: Ledger) -> None:
    one = session("worker-1", ledger, BOXED, FIRST)
    one.state.heads[2] = ledger.chain.head
    flat = np.ones(ELEMENTS, dtype=np.float32)
    list(one.contribute(Model(2, flat), Gradient(flat=flat, presence=[True], weight=1.0, loss=0.0, cursor=20)))
    assert one.cursor == 20
    one.skip(Model(2, flat), 21, "not finite")
    assert one.cursor == 21


def test_a_worker_that_has_said_nothing_begins_at_the_beginning() -> None:
    assert session("worker-1", Ledger().start(), BOXED).cursor == 0
    assert session("worker-1", Ledger(), BOXED).cursor == 0


def test_clocks_of_a_fixed_size_go_by_the_pace(ledger: Ledger) -> None:
    """Lock-step needs no more: everybody is at the head."""
    assert session("worker-1", ledger, LocalWork(), FIRST).cursor == 2
    assert session("worker-1", ledger, LocalWork(steps=3), FIRST).cursor == 6
