"""What a worker would start a run with."""

from dataclasses import replace

from driftline.broker.topics import Stream
from driftline.producers.session import WorkerSession
from driftline.schemas.effects import CaughtUp, Finish
from driftline.schemas.run.consistency import Consistency
from tests.support.stage import CONFIG, OFFER


def test_a_worker_whose_settings_no_coordinator_would_take_ends_and_names_them() -> None:
    """A coordinator drops such a proposal without an answer; the worker would wait until its patience ends."""
    config = replace(CONFIG, consistency=Consistency(mode="async"))
    worker = WorkerSession("worker-1", b"w" * 16, replace(OFFER, config=config), b"r" * 16)
    worker.begin()
    (finish,) = worker.on(CaughtUp(Stream.LEDGER, 0, 0))
    assert isinstance(finish, Finish)
    assert finish.reason == "refused"
    assert "consistency.buffer: 0 contradicts mode async" in finish.failure
