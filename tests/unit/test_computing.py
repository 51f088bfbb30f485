"""What one clock of a worker computes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn, optim

from driftline.consumers.follower import Model
from driftline.producers.deltas import Gradient
from driftline.schemas.local_work import LocalWork
from driftline.training.computing import Computing, Skipped
from driftline.training.data import DataPlan
from driftline.training.model_layout import flatten_parameters, load_parameters
from driftline.training.randomness import build_model
from driftline.training.run_settings import RunSettings
from driftline.training.task import Dataset, Task, read_batch


@dataclass(kw_only=True)
class Line(Task):
    """A straight line through points; the loss can be made to explode."""

    batch_size: int = 4
    scale: float = 1.0

    def model(self) -> nn.Module:
        return nn.Linear(3, 1)

    def data(self, split: str) -> Dataset:
        del split
        points = torch.arange(36, dtype=torch.float32).reshape(12, 3) / 36
        return torch.utils.data.TensorDataset(points, points.sum(dim=1, keepdim=True))

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        points, heights = batch
        return self.scale * nn.functional.mse_loss(model(points), heights), float(len(points))

    def optimizer(self, model: nn.Module) -> optim.Optimizer:
        return optim.SGD(model.parameters(), lr=0.1, momentum=0.5)

    def metrics(self, model: nn.Module, batches: Iterable[Any]) -> dict[str, float]:
        del model, batches
        return {}


def compute(computing: Computing, cursor: int) -> Gradient | Skipped:
    model = Model(cursor, computing.offer.masters)
    return computing.gradient(model, worker="w", start=0, cursor=cursor, clock=1, first_names=("w",))


def settings(**more: Any) -> RunSettings:
    return RunSettings(run="r", workers=1, steps=5, seed=3, **more)


def test_local_steps_contribute_base_minus_local() -> None:
    computing = Computing(Line(), settings(local=LocalWork(steps=3)))
    found = compute(computing, cursor=1)
    assert isinstance(found, Gradient)
    task = Line()
    model, data = build_model(task, 3), task.data("train")
    load_parameters(model, computing.offer.layout, computing.offer.masters)
    optimizer = task.optimizer(model)
    for step in range(3):
        batch = read_batch(task, data, DataPlan(12, 1, 4, 3).batch(0, 3 + step).indices)
        optimizer.zero_grad()
        task.loss(model, batch)[0].backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    local = flatten_parameters(model, computing.offer.layout)
    assert found.flat.tobytes() == np.subtract(computing.offer.masters, local).tobytes()
    assert found.weight == 12
    assert found.presence == [True, True]


def test_local_steps_make_the_servers_rule_the_outer_one() -> None:
    plain = Computing(Line(), settings()).offer.config
    local = Computing(Line(), settings(local=LocalWork(steps=3), outer_lr=0.5)).offer.config
    assert (plain.rule.name, plain.rule.groups[0]["lr"]) == ("sgd", 0.1)
    assert (local.rule.name, local.rule.groups[0]["lr"], local.rule.groups[0]["nesterov"]) == ("sgd", 0.5, 1.0)


def test_a_pass_over_the_data_takes_fewer_versions_with_local_steps() -> None:
    one = Computing(Line(), RunSettings(run="r", workers=1, epochs=2)).offer.config
    three = Computing(Line(), RunSettings(run="r", workers=1, epochs=2, local=LocalWork(steps=3))).offer.config
    assert (one.steps, three.steps) == (6, 2)


def test_clipping_bounds_the_norm_of_a_workers_own_gradient() -> None:
    free, clipped = (compute(Computing(Line(), settings(local=LocalWork(clip_norm=norm))), 0) for norm in (0.0, 0.01))
    assert isinstance(free, Gradient)
    assert isinstance(clipped, Gradient)
    assert np.linalg.norm(free.flat) > 0.01
    assert np.linalg.norm(clipped.flat) == pytest.approx(0.01, rel=1e-5)


@pytest.mark.parametrize("steps", [1, 2])
def test_a_gradient_that_is_not_finite_is_skipped_by_name(steps: int) -> None:
    found = compute(Computing(Line(scale=float("inf")), settings(local=LocalWork(steps=steps))), 0)
    assert isinstance(found, Skipped)
    assert "not finite" in found.reason
