"""A worker that was away for too long is removed, and joins again, unless another process has taken its place."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim

from driftline.config.run_settings import RunSettings
from driftline.consumers.server.serving import serve
from driftline.ledger.entering.reading import read_ledger
from driftline.ledger.run_state import RunState
from driftline.runtime.shell import Shell
from driftline.schemas.effects import Finish
from driftline.testing.memory import MemoryBroker
from driftline.training.task import Dataset, Task
from driftline.training.task.worker import work
from driftline.training.worker.topics import RunTopics

pytestmark = pytest.mark.slow

DEADLINE_S = 60.0
STEPS = 120


@dataclass(kw_only=True)
class Line(Task):
    """A straight line, fitted slowly enough that others have time to be missed."""

    batch_size: int = 4
    beat: threading.Event = field(default_factory=threading.Event)

    def model(self) -> nn.Module:
        return nn.Linear(3, 1)

    def data(self, split: str) -> Dataset:
        del split
        points = torch.arange(36, dtype=torch.float32).reshape(12, 3) / 36
        return torch.utils.data.TensorDataset(points, points.sum(dim=1, keepdim=True))

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        points, heights = batch
        self.beat.wait(0.02)
        return nn.functional.mse_loss(model(points), heights), float(len(points))

    def optimizer(self, model: nn.Module) -> optim.Optimizer:
        return optim.SGD(model.parameters(), lr=0.1)

    def metrics(self, model: nn.Module, batches: Iterable[Any]) -> dict[str, float]:
        del model, batches
        return {}


class Company:
    """A server and some workers on threads; the first session of "sleepy" hears and says nothing while not awake."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broker = MemoryBroker()
        self.settings = RunSettings(run="company", workers=2, steps=STEPS)
        self.finishes: dict[str, Finish] = {}
        self.stop, self.awake = threading.Event(), threading.Event()
        self._threads: list[threading.Thread] = []
        self.awake.set()
        awake, step, sleepers = self.awake, Shell.step, list[Shell]()

        def sleepy_step(shell: Shell, timeout_s: float) -> None:
            if threading.current_thread().name == "session sleepy":
                sleepers.append(shell)
                if shell is sleepers[0]:
                    awake.wait(DEADLINE_S)
            step(shell, timeout_s)

        monkeypatch.setattr(Shell, "step", sleepy_step)
        RunTopics(self.broker, self.settings).create()
        self._start("server", lambda: serve(self.broker, "company", "server", stop=self.stop))

    def hire(self, name: str, label: str = "") -> None:
        """Let a worker begin."""
        self._start(label or name, lambda: work(self.broker, self.settings, name, Line(), stop=self.stop))

    def until(self, question: Callable[[RunState], bool]) -> None:
        """Wait until the ledger answers yes."""
        deadline_s = time.monotonic() + DEADLINE_S
        while not question(read_ledger(self.broker, "company")):
            assert time.monotonic() < deadline_s
            time.sleep(0.05)

    def end(self) -> dict[str, Finish]:
        """Wait for all of them, and return how they finished."""
        for thread in self._threads:
            thread.join(DEADLINE_S)
        return self.finishes

    def _start(self, label: str, role: Callable[[], Finish]) -> None:
        thread = threading.Thread(target=lambda: self.finishes.update({label: role()}), name=label, daemon=True)
        self._threads.append(thread)
        thread.start()


@pytest.fixture
def company(monkeypatch: pytest.MonkeyPatch) -> Iterator[Company]:
    """Two workers at work, of which one has just fallen asleep and was removed."""
    company = Company(monkeypatch)
    company.hire("sleepy")
    company.hire("steady")
    company.until(lambda state: state.version > 2)
    company.awake.clear()
    company.until(lambda state: len(state.removed) == 1)
    yield company
    company.awake.set()
    company.stop.set()
    company.end()


def test_a_worker_that_wakes_up_joins_again_and_goes_on(company: Company) -> None:
    """As a new incarnation, at the pace of the others."""
    company.awake.set()
    finishes = company.end()
    assert {finish.failure for finish in finishes.values()} == {""}
    state = read_ledger(company.broker, "company")
    assert sorted(name for name, _ in state.joined) == ["sleepy", "sleepy", "steady"]
    assert state.totals.contributions["sleepy"] > 3
    assert state.version == STEPS


def test_a_worker_whose_place_was_taken_ends_when_it_wakes_up(company: Company) -> None:
    """Two processes of one name do not take turns."""
    company.hire("sleepy", "successor")
    company.until(lambda state: state.worker_group("sleepy") is not None)
    company.awake.set()
    finishes = company.end()
    assert "another has taken its name" in finishes["sleepy"].failure
    assert {finishes[label].failure for label in ("server", "steady", "successor")} == {""}
    assert len(read_ledger(company.broker, "company").removed) == 1
