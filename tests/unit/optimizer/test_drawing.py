"""What a loader draws ahead, and when it draws too far."""

from types import SimpleNamespace
from typing import cast

import pytest

from driftline.producers.session import WorkerSession
from driftline.schemas.records.sample_range import SampleRange, Samples
from driftline.training.optimizer.drawing import Drawing, SampleAvailability

NO_MORE = SimpleNamespace(is_due=lambda _group: False, is_free=lambda _epoch: True, due=lambda: ())
"""Others may get more of the epoch; this worker has what it may hold."""


def places(start: int, count: int, epoch: int = 1) -> Samples:
    """Return places of an epoch."""
    return (SampleRange(epoch=epoch, start=start, count=count),)


def member(held: Samples, leases: SimpleNamespace = NO_MORE) -> WorkerSession:
    """Return a member that holds samples, all of whose clocks are settled."""
    state = SimpleNamespace(leases=leases, is_finished=False)
    found = SimpleNamespace(samples=held, state=state, group=SimpleNamespace(id=1), has_unsettled=False)
    return cast("WorkerSession", found)


def drawn(held: Samples) -> Drawing:
    """Return the draws of a loader that has drawn everything."""
    drawing = Drawing(4)
    drawing.read(held)
    while drawing.draw() is not None:
        pass
    return drawing


def test_a_loader_that_has_drawn_all_that_its_worker_may_hold_draws_too_far() -> None:
    """Only steps make room, and they do not come while it draws."""
    assert drawn(places(0, 16)).look(member(places(0, 16))) == SampleAvailability(too_far=True)


def test_a_pass_ends_where_what_was_drawn_is_another_workers_by_now() -> None:
    """This worker was removed and has joined again: what it drew before says nothing of how far its loader reads."""
    drawing = drawn(places(0, 16))
    assert drawing.look(member(places(8, 8))) == SampleAvailability()
    assert drawing.look(member(places(8, 16))) == SampleAvailability(places(16, 8))


@pytest.mark.parametrize("other", [0, 2])
def test_a_pass_ends_where_its_worker_has_something_else_to_read(other: int) -> None:
    """A worker that left has given samples back, of this epoch or an older one; we hold enough without this one's."""
    held = places(0, 16) + places(0, 36, epoch=other)
    assert drawn(places(0, 16)).look(member(held)) == SampleAvailability()


def test_a_loader_waits_while_samples_are_about_to_be_leased_to_others() -> None:
    """Only behind that record is it known whether any of this epoch are left."""
    leases = SimpleNamespace(**{**vars(NO_MORE), "due": lambda: ("a grant to another worker",)})
    assert drawn(places(0, 16)).look(member(places(0, 16), leases)) is None
