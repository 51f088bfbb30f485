"""A run waits for the verdict of an evaluator that has announced itself, however late its torch comes."""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn, optim

from driftline.broker.memory import MemoryBroker
from driftline.consumers.serving import serve
from driftline.training.evaluating import evaluate_run
from driftline.training.preparing import prepare_topics
from driftline.training.reading import read_ledger
from driftline.training.run_settings import RunSettings
from driftline.training.task import Dataset, Task
from driftline.training.working import work

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
    prepare_topics(broker, settings)

    def load() -> Task:
        deadline_s = time.monotonic() + DEADLINE_S
        while read_ledger(broker, "short").version < STEPS:
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
        stop.wait(1.0)  # four tick intervals: a coordinator that knows of nobody has ended the run by then
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
