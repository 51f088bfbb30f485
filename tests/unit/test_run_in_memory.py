"""A whole run through every layer but Kafka, processes and torch."""

import numpy as np
import pytest

from driftline.broker.inflow import Pumped
from driftline.broker.memory import MemoryBroker
from driftline.broker.port import EndReached
from driftline.broker.topics import Stream, run_topics
from driftline.consumers.follower import Model
from driftline.consumers.shell import Shell
from driftline.producers.deltas import Gradient
from driftline.producers.proposal import Offer
from driftline.schemas.effects import CaughtUp, Effect, Input, Read
from driftline.schemas.layout import Layout, Segment
from driftline.schemas.run_config import RuleConfig, RunConfig
from driftline.testing.in_process import run_in_process

LEARNING_RATE = 0.1


def sgd_offer(workers: int, steps: int, elements: int = 10) -> Offer:
    layout = Layout((Segment("weight", (), (elements,), "float32", "parameter", 0, 0),), 4)
    rule = RuleConfig(name="sgd", groups=({"lr": LEARNING_RATE},))
    config = RunConfig(name="ones", workers=workers, steps=steps, rule=rule, tick_interval_s=0.05)
    return Offer(config=config, layout=layout, masters=np.zeros(elements, np.float32))


def ones(_: str, model: Model, cursor: int) -> Gradient:
    return Gradient(flat=np.ones_like(model.flat), presence=[True], weight=32.0, loss=1.0, cursor=cursor)


@pytest.mark.parametrize("workers", [1, 2, 4, 8])
def test_a_gradient_of_one_from_every_worker_moves_a_weight_by_exactly_the_learning_rate(workers: int) -> None:
    names = [f"worker-{index}" for index in range(workers)]
    outcome = run_in_process(MemoryBroker(), sgd_offer(workers, steps=1), names, ones)
    assert outcome.model is not None
    assert outcome.model.flat.tobytes() == np.full(10, -np.float32(LEARNING_RATE), np.float32).tobytes()
    assert {finish.failure for finish in outcome.finishes.values()} == {""}


def test_a_step_does_not_change_with_the_number_of_workers_or_servers() -> None:
    digests = {
        run_in_process(
            MemoryBroker(), sgd_offer(workers, steps=5), [f"w{n}" for n in range(workers)], ones, servers=servers
        )
        .state.states[5]
        .state
        for workers, servers in ((1, 1), (2, 1), (2, 2), (4, 3))
    }
    assert len(digests) == 1


def test_a_worker_with_another_model_is_refused_with_the_difference() -> None:
    broker = MemoryBroker()
    run_in_process(broker, sgd_offer(1, steps=2), ["first"], ones)
    outcome = run_in_process(broker, sgd_offer(1, steps=2, elements=11), ["second"], ones)
    refusal = outcome.finishes["second"].failure
    assert "another model" in refusal
    assert "(11,)" in refusal
    assert "(10,)" in refusal


def test_a_worker_with_other_settings_is_refused_with_the_difference() -> None:
    broker = MemoryBroker()
    run_in_process(broker, sgd_offer(1, steps=2), ["first"], ones)
    outcome = run_in_process(broker, sgd_offer(1, steps=3), ["second"], ones)
    assert "steps: 3 here, 2 in the run" in outcome.finishes["second"].failure


def test_a_reading_that_is_restarted_hears_nothing_of_the_reading_before() -> None:
    """A stale end of partition once made a server believe that version 0 was missing."""
    broker = MemoryBroker()
    broker.admin().create(run_topics("again", 1))
    core = _Restarting()
    shell = Shell(broker, "again", core, "reader")
    while core.ends != [0]:
        shell.step(0.001)
    for offset in (7, 8):
        shell._inflow.put(Pumped("reader", EndReached("driftline.again.ledger", 0, offset)))
    shell.step(0.001)
    shell.close()
    assert core.ends == [0, 7]
    assert shell.counters["records_of_earlier_readings"] == 1


class _Restarting:
    """Reads the ledger, and reads it again at every end but the first."""

    def __init__(self) -> None:
        self.ends: list[int] = []

    def begin(self) -> list[Effect]:
        return [Read(Stream.LEDGER, 0, 0)]

    def on(self, event: Input) -> list[Effect]:
        if not isinstance(event, CaughtUp):
            return []
        self.ends.append(event.offset)
        return [Read(Stream.LEDGER, 0, 0)] if len(self.ends) > 1 else []
