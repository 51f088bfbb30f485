"""A run waits for the verdict of an evaluator that has announced itself, however late its torch comes."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim

from driftline.broker.topics import Stream, topic_name
from driftline.config.run_settings import RunSettings
from driftline.consumers.server.serving import serve
from driftline.errors import BrokerError, DriftlineError, RunRefused
from driftline.ledger.entering import same_run
from driftline.ledger.entering.reading import read_ledger
from driftline.testing.memory import MemoryBroker
from driftline.training.task import Dataset, Task, evaluating
from driftline.training.task.evaluating import evaluate_run
from driftline.training.task.worker import work
from driftline.training.worker.topics import RunTopics
from tests.unit.ledger.test_same_run import OTHER, RUN, TOPICS, put_in_its_place, wait_until

STEPS = 40
DEADLINE_S = 60.0


@dataclass(kw_only=True)
class Line(Task):
    """A straight line through points."""

    batch_size: int = 4

    def model(self) -> nn.Module:
        return nn.Linear(3, 1)

    def data(self, split: str) -> Dataset:
        del split
        points = torch.arange(36, dtype=torch.float32).reshape(12, 3) / 36
        return torch.utils.data.TensorDataset(points, points.sum(dim=1, keepdim=True))

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        points, heights = batch
        return nn.functional.mse_loss(model(points), heights), float(len(points))

    def optimizer(self, model: nn.Module) -> optim.Optimizer:
        return optim.SGD(model.parameters(), lr=0.1)

    def metrics(self, model: nn.Module, batches: Iterable[Any]) -> dict[str, float]:
        del model, batches
        return {"fit": 0.5}


def test_a_run_that_is_shorter_than_the_import_of_torch_has_metrics() -> None:
    """The evaluator says that it is there before it loads the task; the last version then waits for it."""
    broker, stop = MemoryBroker(), threading.Event()
    settings = RunSettings(run="short", workers=1, steps=STEPS)
    RunTopics(broker, settings).create()

    def load() -> Task:
        deadline_s = time.monotonic() + DEADLINE_S
        while read_ledger(broker, "short").version < STEPS:
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
        stop.wait(1.0)  # four tick intervals: a coordinator that knows of no evaluator has ended the run by then
        return Line()

    members = [
        threading.Thread(target=lambda: serve(broker, "short", "server", stop=stop), daemon=True),
        threading.Thread(target=lambda: work(broker, settings, "worker", Line(), stop=stop), daemon=True),
    ]
    for member in members:
        member.start()
    finish, state = evaluate_run(broker, "short", "evaluator", load, stop=stop)
    for member in members:
        member.join(DEADLINE_S)
    assert (finish.failure, state.version) == ("", STEPS)
    assert dict(state.evaluations[STEPS].metrics) == {"fit": 0.5}


@dataclass
class Measured:
    """An evaluator at work on a run that has no end in sight."""

    broker: MemoryBroker
    stop: threading.Event = field(default_factory=threading.Event)
    errors: list[DriftlineError] = field(default_factory=list)

    def measure(self) -> None:
        """Be the evaluator."""
        try:
            evaluate_run(self.broker, RUN, "evaluator", Line, stop=self.stop)
        except DriftlineError as error:
            self.errors.append(error)


@contextmanager
def measuring(broker: MemoryBroker) -> Iterator[Measured]:
    """Let an evaluator measure the newest version, and wait for the next one."""
    measured = Measured(broker)
    thread = threading.Thread(target=measured.measure, daemon=True)
    thread.start()
    try:
        yield measured
        thread.join(DEADLINE_S)
    finally:
        measured.stop.set()
        thread.join(DEADLINE_S)


def left_at(versions: int) -> MemoryBroker:
    """Return the log of a run that was left behind so many versions."""
    broker, stop = MemoryBroker(), threading.Event()
    settings = RunSettings(run=RUN, workers=1, steps=1_000_000, partitions=TOPICS[0].partitions)
    RunTopics(broker, settings).create()
    roles: list[Callable[[], object]] = [
        lambda: serve(broker, RUN, "server", stop=stop),
        lambda: work(broker, settings, "worker", Line(), stop=stop),
    ]
    threads = [threading.Thread(target=role, daemon=True) for role in roles]
    for thread in threads:
        thread.start()
    wait_until(lambda: read_ledger(broker, RUN).version >= versions)
    stop.set()
    for thread in threads:
        thread.join(DEADLINE_S)
    return broker


def reports(broker: MemoryBroker) -> int:
    """Return where the events end: only the evaluator writes any."""
    return broker.log.bounds(topic_name(RUN, Stream.EVENTS), 0).end


def test_an_evaluator_ends_with_a_topic_that_is_deleted_under_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And until then says what it waits for, now and then."""
    monkeypatch.setattr(evaluating, "SAY_S", 0.1)
    caplog.set_level(logging.INFO)
    broker = left_at(3)
    before = reports(broker)
    with measuring(broker) as measured:
        wait_until(lambda: reports(broker) > before and "waiting for a version newer than" in caplog.text)
        broker.log.delete(topic_name(RUN, Stream.LEDGER))
    (error,) = measured.errors
    assert isinstance(error, BrokerError)
    assert topic_name(RUN, Stream.LEDGER) in str(error)
    assert "cannot go on without it" in str(error)


def test_an_evaluator_ends_when_another_run_has_outgrown_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_run, "LOOK_EVERY_S", 0.2)
    broker, longer = left_at(3), left_at(60)
    before = reports(broker)
    with measuring(broker) as measured:
        wait_until(lambda: reports(broker) > before)
        put_in_its_place(broker, longer)
    (error,) = measured.errors
    assert isinstance(error, RunRefused)
    assert OTHER.partition(",")[0] in str(error)
