"""What one clock of a worker computes."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn, optim

from driftline.config.run_settings import RunSettings
from driftline.ledger.follower import Model
from driftline.producers.deltas import Gradient, NoGradient
from driftline.schemas.records.sample_range import SampleRange
from driftline.schemas.run.local_work import LocalWork
from driftline.training.model.layout import flatten_parameters, load_parameters
from driftline.training.task import Dataset, Task, read_batch
from driftline.training.task.computing import Computing
from driftline.training.task.parts import build_model
from driftline.training.worker.order import epoch_order


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


def compute(computing: Computing, batch: int) -> Gradient | NoGradient:
    """Compute a clock that begins with batch number ``batch`` of two epochs, of three batches each."""
    places = (SampleRange(epoch=batch // 3, start=4 * (batch % 3), count=12 - 4 * (batch % 3)),)
    leased = (*places, *(SampleRange(epoch=epoch, start=0, count=12) for epoch in range(batch // 3 + 1, 4)))
    return computing.gradient(Model(batch, computing.offer.masters), worker="w", start=0, clock=1, leased=leased)


def settings(**more: Any) -> RunSettings:
    return RunSettings(run="r", workers=1, steps=5, seed=3, **more)


def test_local_steps_contribute_base_minus_local() -> None:
    computing = Computing(Line(), settings(local=LocalWork(steps=3)))
    found = compute(computing, batch=3)
    assert isinstance(found, Gradient)
    task = Line()
    model, data = build_model(task, 3), task.data("train")
    load_parameters(model, computing.offer.layout, computing.offer.masters)
    optimizer = task.optimizer(model)
    for step in range(3):
        batch = read_batch(task, data, epoch_order(12, 3, 1)[4 * step : 4 * step + 4])
        optimizer.zero_grad()
        task.loss(model, batch)[0].backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    local = flatten_parameters(model, computing.offer.layout)
    assert found.flat.tobytes() == np.subtract(computing.offer.masters, local).tobytes()
    assert found.weight == 12
    assert found.cursor == 3
    assert found.samples == (SampleRange(epoch=1, start=0, count=12),)
    assert found.presence == [True, True]


def test_local_steps_make_the_servers_rule_the_outer_one() -> None:
    plain = Computing(Line(), settings()).offer.config
    local = Computing(Line(), settings(local=LocalWork(steps=3), outer_lr=0.5)).offer.config
    assert (plain.rule.name, plain.rule.groups[0]["lr"]) == ("sgd", 0.1)
    assert (local.rule.name, local.rule.groups[0]["lr"], local.rule.groups[0]["nesterov"]) == ("sgd", 0.5, 1.0)


def test_a_pass_over_the_data_takes_fewer_versions_with_local_steps() -> None:
    one = Computing(Line(), RunSettings(run="r", workers=1, epochs=2)).offer.config
    three = Computing(Line(), RunSettings(run="r", workers=1, epochs=2, local=LocalWork(steps=3))).offer.config
    assert (one.steps, one.data.epochs, one.horizon) == (0, 2, 6)
    assert three.horizon == 2


def test_clipping_bounds_the_norm_of_a_workers_own_gradient() -> None:
    free, clipped = (compute(Computing(Line(), settings(local=LocalWork(clip_norm=norm))), 0) for norm in (0.0, 0.01))
    assert isinstance(free, Gradient)
    assert isinstance(clipped, Gradient)
    assert np.linalg.norm(free.flat) > 0.01
    assert np.linalg.norm(clipped.flat) == pytest.approx(0.01, rel=1e-5)


@pytest.mark.parametrize("steps", [1, 2])
def test_a_gradient_that_is_not_finite_is_skipped_by_name(steps: int) -> None:
    found = compute(Computing(Line(scale=float("inf")), settings(local=LocalWork(steps=steps))), 0)
    assert isinstance(found, NoGradient)
    assert "not finite" in found.reason


class Watch:
    """Seconds that pass only when a batch is computed."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@dataclass(kw_only=True)
class Slow(Line):
    """Every batch takes its time, its denominator is its own, and a random number is drawn for it."""

    watch: Watch
    takes_s: tuple[float, ...] = (1.0,)
    scales: tuple[float, ...] = (1.0,)
    draws: list[float] = field(default_factory=list)

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        count = len(self.draws)
        self.watch.now_s += self.takes_s[count % len(self.takes_s)]
        self.draws.append(float(torch.rand(())))
        mean, weight = super().loss(model, batch)
        return mean, weight * self.scales[count % len(self.scales)]


def boxed(clock_s: float, *, clip_norm: float = 0.0, steps: int = 1, **more: Any) -> tuple[Computing, Slow]:
    task = Slow(watch=Watch(), **more)
    local = LocalWork(clock_s=clock_s, clip_norm=clip_norm, steps=steps)
    return Computing(task, settings(local=local), monotonic=task.watch), task


@pytest.mark.parametrize(
    ("clock_s", "takes_s", "batches"),
    [
        (4.0, (1.0,), 4),
        (4.5, (1.0,), 4),
        (0.1, (1.0,), 1),  # at least one, however long it takes
        (4.0, (1.0, 2.0), 2),  # 1 + 2 has passed, and another as long as the last would end at 5
        (4.0, (2.0, 1.0), 3),
    ],
)
def test_as_many_batches_as_fit_into_a_timed_clock(clock_s: float, takes_s: tuple[float, ...], batches: int) -> None:
    """Whether another batch is begun follows from the time that has passed and from what the last one took."""
    computing, task = boxed(clock_s, takes_s=takes_s)
    found = compute(computing, batch=0)
    assert isinstance(found, Gradient)
    assert (len(task.draws), found.weight, found.cursor) == (batches, 4.0 * batches, batches)


def test_a_timed_clock_contributes_the_weighted_mean_of_its_batches() -> None:
    """Gradient and loss are those of all samples of the clock together, and the weight is their number."""
    computing, task = boxed(3.0, scales=(1.0, 5.0, 0.5))
    found = compute(computing, batch=1)
    assert isinstance(found, Gradient)
    single = [compute(Computing(Line(), settings()), cursor) for cursor in (1, 2, 3)]
    weights = np.array([4.0, 20.0, 2.0])
    parts = [one for one in single if isinstance(one, Gradient)]
    mean = sum(weight * one.flat.astype(np.float64) for weight, one in zip(weights, parts, strict=True)) / 26.0
    np.testing.assert_allclose(found.flat, mean, rtol=1e-6)
    assert found.loss == pytest.approx(np.dot(weights, [one.loss for one in parts]) / 26.0)
    assert (found.weight, found.presence, found.cursor) == (26.0, [True, True], 3)
    assert len(set(task.draws)) == 3  # every batch draws its own random numbers


def test_a_timed_clock_of_one_batch_gives_the_bits_of_a_plain_one() -> None:
    boxed_one, plain = compute(boxed(0.5)[0], 0), compute(Computing(Line(), settings()), 0)
    assert isinstance(boxed_one, Gradient)
    assert isinstance(plain, Gradient)
    assert boxed_one.flat.tobytes() == plain.flat.tobytes()
    assert (boxed_one.loss, boxed_one.weight) == (plain.loss, plain.weight)


def test_a_timed_clock_clips_once_and_on_the_mean() -> None:
    """Clipping each batch would give another direction: here the second counts a thousand times more."""
    free = compute(boxed(2.0, scales=(1.0, 1000.0))[0], 0)
    clipped = compute(boxed(2.0, scales=(1.0, 1000.0), clip_norm=0.01)[0], 0)
    assert isinstance(free, Gradient)
    assert isinstance(clipped, Gradient)
    norm = float(np.linalg.norm(free.flat))
    assert norm > 0.01
    np.testing.assert_allclose(clipped.flat, free.flat * (0.01 / norm), rtol=1e-5)


def test_a_batch_without_weight_counts_for_nothing() -> None:
    one, two = compute(boxed(2.0, scales=(1.0, 0.0))[0], 0), compute(boxed(1.0)[0], 0)
    assert isinstance(one, Gradient)
    assert isinstance(two, Gradient)
    assert (one.flat.tobytes(), one.weight, one.loss) == (two.flat.tobytes(), two.weight, two.loss)
    assert one.cursor == 2


def test_a_timed_clock_goes_on_over_the_end_of_an_epoch() -> None:
    """Three batches make an epoch here; the third of this clock begins the next one, in its own order."""
    computing, task = boxed(5.0)
    found = compute(computing, batch=1)
    assert isinstance(found, Gradient)
    assert (len(task.draws), found.cursor) == (5, 5)
    assert found.samples == (SampleRange(epoch=0, start=4, count=8), SampleRange(epoch=1, start=0, count=12))


@pytest.mark.parametrize(("clock_s", "steps"), [(2.0, 2), (60.0, 3)])
def test_a_timed_clock_makes_as_many_local_steps_as_fit_but_no_more_than_asked_for(clock_s: float, steps: int) -> None:
    found = compute(boxed(clock_s, steps=3)[0], batch=0)
    plain = compute(Computing(Line(), settings(local=LocalWork(steps=steps))), batch=0)
    assert isinstance(found, Gradient)
    assert isinstance(plain, Gradient)
    assert found.flat.tobytes() == plain.flat.tobytes()
    assert (found.weight, found.cursor) == (4.0 * steps, steps)


def test_a_timed_clock_with_a_batch_that_is_not_finite_is_skipped_with_what_it_has_read() -> None:
    """It is discarded: read again it would be no better."""
    computing, _ = boxed(9.0, scale=float("inf"))
    found = compute(computing, batch=7)
    assert isinstance(found, NoGradient)
    assert found.samples == (SampleRange(epoch=2, start=4, count=4),)


def test_a_clock_without_samples_is_skipped() -> None:
    computing = Computing(Line(), settings())
    found = computing.gradient(Model(0, computing.offer.masters), worker="w", start=0, clock=1, leased=())
    assert found == NoGradient("no samples are left", ())


def test_a_timed_clock_ends_with_what_is_leased() -> None:
    computing, task = boxed(9.0)
    leased = (SampleRange(epoch=0, start=3, count=6),)
    found = computing.gradient(Model(0, computing.offer.masters), worker="w", start=0, clock=1, leased=leased)
    assert isinstance(found, Gradient)
    assert (len(task.draws), found.weight, found.samples) == (2, 6.0, leased)


def test_passes_over_the_data_end_a_run_with_timed_clocks_too() -> None:
    config = Computing(Line(), RunSettings(run="r", epochs=2, local=LocalWork(clock_s=1.0))).offer.config
    assert (config.steps, config.data.epochs, config.horizon) == (0, 2, 0)
