"""Whole runs over leased samples, in one process: the same leases and the same bits, however many servers there are."""

import random
from collections import Counter

import numpy as np
import pytest

from driftline.ledger.follower import Model
from driftline.producers.deltas import Gradient
from driftline.producers.proposal import Offer
from driftline.schemas.codec import decode
from driftline.schemas.model.layout import Layout, Segment
from driftline.schemas.records import Grant, Lease, Use, Version
from driftline.schemas.records.sample_range import SampleRange, Samples, count
from driftline.schemas.run.config import RuleConfig, RunConfig
from driftline.schemas.run.consistency import Consistency
from driftline.schemas.run.data import DataConfig
from driftline.testing import LeasedGradients, run_in_process
from driftline.testing.memory import MemoryBroker
from driftline.training.task.data import LeasedSamples
from tests.support.verifiable import Log

RUN, WORKERS, SAMPLES, BATCH, EPOCHS = "leased", ("ada", "bob", "cyn"), 61, 4, 2
TARGETS = np.random.default_rng(7).standard_normal((SAMPLES, 10)).astype(np.float32)


def offer(bounds: Consistency) -> Offer:
    config = RunConfig(
        name=RUN,
        workers=len(WORKERS),
        steps=0,
        partitions=2,
        rule=RuleConfig(name="sgd", groups=({"lr": 0.2},)),
        consistency=bounds,
        data=DataConfig(samples=SAMPLES, batch_size=BATCH, block=2 * BATCH, epochs=EPOCHS),
    )
    layout = Layout((Segment("point", (), (10,), "float32", "parameter", 0, 0),), 2)
    return Offer(config=config, layout=layout, masters=np.zeros(10, np.float32))


def compute(_worker: str, model: Model, _clock: int, leased: Samples) -> Gradient:
    """Pull the point towards the mean of a batch."""
    data = LeasedSamples(SAMPLES, 0, leased)
    pull = np.subtract(model.flat, TARGETS[data.batch(BATCH)].mean(axis=0, dtype=np.float32))
    return Gradient(flat=pull, presence=[True], weight=float(count(data.read)), loss=0.0, cursor=0, samples=data.read)


class Ran:
    """A run that is over: its digest, what was leased, and what was used, in the order of the ledger."""

    def __init__(self, bounds: Consistency, servers: int, pauses: dict[str, float] | None = None) -> None:
        broker = MemoryBroker()
        outcome = run_in_process(
            broker, offer(bounds), WORKERS, LeasedGradients(compute), servers=servers, pauses=pauses
        )
        self.state = outcome.state
        self.log = Log.of(broker, RUN)
        self.digest = self.state.states[self.state.version].state
        records = [decode(value) for value in self.log.ledger]
        names = {group: worker for (worker, _), group in self.state.joined.items()}
        self.decisions = [
            [(names[part.group], part.samples) for part in parts(record)]
            for record in records
            if isinstance(record, Lease | Version)
        ]
        self.used = [
            one for record in records if isinstance(record, Version) for use in record.uses for one in use.samples
        ]


def parts(record: Lease | Version) -> tuple[Grant, ...] | tuple[Use, ...]:
    return record.grants if isinstance(record, Lease) else record.uses


def places(used: list[SampleRange]) -> Counter[tuple[int, int]]:
    return Counter((one.epoch, place) for one in used for place in range(one.start, one.stop))


@pytest.fixture(scope="module")
def lock_step() -> Ran:
    return Ran(Consistency(), servers=1)


def test_the_ledger_decides_the_same_in_the_same_run_made_again(lock_step: Ran) -> None:
    """With two servers and a slow worker: each lease and each version, in their order, and the bits."""
    again = Ran(Consistency(), servers=2, pauses={random.choice(WORKERS): 0.01})  # noqa: S311 - any of them
    assert again.decisions == lock_step.decisions
    assert again.digest == lock_step.digest


def test_bounded_staleness_of_0_is_lock_step_to_the_bit(lock_step: Ran) -> None:
    ssp = Ran(Consistency(mode="ssp", staleness=0), servers=1)
    assert ssp.decisions == lock_step.decisions
    assert ssp.digest == lock_step.digest


@pytest.mark.parametrize(
    "bounds",
    [
        Consistency(),
        Consistency(mode="ssp", staleness=2),
        Consistency(mode="buffered", buffer=2, ahead=1),
        Consistency(mode="async", buffer=1, weighting="inverse"),
    ],
    ids=lambda bounds: bounds.mode,
)
def test_each_sample_is_used_once_an_epoch_in_every_mode(bounds: Consistency) -> None:
    """Beside a slow worker, and proven by the log."""
    ran = Ran(bounds, servers=2, pauses={"bob": 0.03})
    assert places(ran.used) == {(epoch, place): 1 for epoch in range(EPOCHS) for place in range(SAMPLES)}
    assert (ran.state.leases.consumed, ran.state.leases.discarded) == (EPOCHS * SAMPLES, 0)
    assert ran.log.verify().is_proven
