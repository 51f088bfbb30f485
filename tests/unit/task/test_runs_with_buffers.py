"""Whole runs, without Kafka and processes: models of every kind of tensor, from torch to the published version."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn, optim

from driftline.config.run_settings import RunSettings
from driftline.ledger.follower import Model
from driftline.producers.deltas import Gradient
from driftline.schemas.model.layout import Layout
from driftline.schemas.records.sample_range import Samples
from driftline.schemas.run.local_work import LocalWork
from driftline.testing import LeasedGradients, Outcome, run_in_process
from driftline.testing.memory import MemoryBroker
from driftline.training.model.layout import FlatArray, flatten_parameters, load_parameters
from driftline.training.task import Dataset, Task
from driftline.training.task.computing import Computing
from driftline.training.task.evaluation import evaluate
from driftline.training.task.parts import build_model
from tests.support.verifiable import Log

WORKERS = ("ada", "bob")
STEPS = 6


class Everything(nn.Module):
    """Running statistics, a counter, masks; channels-last, tied, empty, 0-dim and 16-bit parameters."""

    seen: Tensor
    kept: Tensor
    wide: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, kernel_size=3).to(memory_format=torch.channels_last)
        self.norm = nn.BatchNorm2d(4)
        self.first = nn.Linear(16, 16, bias=False)
        self.second = nn.Linear(16, 16, bias=False)
        self.second.weight = self.first.weight
        self.head = nn.Linear(16, 1).to(torch.bfloat16)
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.empty = nn.Parameter(torch.empty(0, 4))
        self.register_buffer("seen", torch.tensor(0))
        self.register_buffer("kept", torch.tensor([True] * 15 + [False]))
        self.register_buffer("wide", torch.tensor(0.0, dtype=torch.float64))

    def forward(self, images: Tensor) -> Tensor:
        """Map (n, 2, 4, 4) to (n, 1)."""
        if self.training:
            self.seen += len(images)
            self.kept[int(self.seen) % 16] ^= True
            self.wide += 1e-17 + float(images.double().mean())
        hidden = self.norm(self.conv(images)).flatten(1)
        hidden = self.second(self.first(hidden)) * self.kept * self.scale
        out: Tensor = self.head(hidden.to(torch.bfloat16))
        return out.float() + self.empty.sum()


@dataclass(kw_only=True)
class Scaled(Task):
    """Means of small images; each worker sees images of another size of numbers."""

    batch_size: int = 8
    scale: float = 1.0

    def model(self) -> nn.Module:
        return Everything()

    def data(self, split: str) -> Dataset:
        generator = torch.Generator().manual_seed(7 if split == "train" else 8)
        images = self.scale * torch.randn(64, 2, 4, 4, generator=generator)
        return torch.utils.data.TensorDataset(images, images.mean(dim=(1, 2, 3)).sign()[:, None])

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        images, signs = batch
        return nn.functional.mse_loss(model(images), signs), float(len(images))

    def optimizer(self, model: nn.Module) -> optim.Optimizer:
        return optim.SGD(model.parameters(), lr=0.01, momentum=0.5)

    def metrics(self, model: nn.Module, batches: Iterable[Any]) -> dict[str, float]:
        losses = [float(self.loss(model, batch)[0]) for batch in batches]
        return {"loss": sum(losses) / len(losses)}


@dataclass(frozen=True)
class Run:
    """A run that is over, what was loaded of it, and what each worker contributed, by base version."""

    broker: MemoryBroker
    outcome: Outcome
    layout: Layout
    models: dict[int, FlatArray]
    contributions: dict[tuple[str, int], Gradient]

    def buffers(self, flat: FlatArray) -> bytes:
        """Return the bytes of all buffers."""
        return b"".join(flat[one.offset : one.stop].tobytes() for one in self.layout.segments if one.kind == "buffer")


def run_of(local_steps: int) -> Run:
    """Train with two workers, the second of which has images a hundred times as bright."""
    settings = RunSettings(
        run="everything", workers=2, steps=STEPS, seed=3, partitions=3, local=LocalWork(steps=local_steps)
    )
    computing = {name: Computing(Scaled(scale=100.0**place), settings) for place, name in enumerate(WORKERS)}
    models: dict[int, FlatArray] = {}
    contributions: dict[tuple[str, int], Gradient] = {}

    def compute(worker: str, model: Model, clock: int, leased: Samples) -> Gradient:
        models[model.version] = model.flat.copy()
        found = computing[worker].gradient(model, worker=worker, start=0, clock=clock, leased=leased)
        assert isinstance(found, Gradient)
        contributions[worker, model.version] = found
        return found

    broker = MemoryBroker()
    offer = computing["ada"].offer
    assert offer.layout.fingerprint() == computing["bob"].offer.layout.fingerprint()
    outcome = run_in_process(
        broker, offer, WORKERS, LeasedGradients(compute), servers=2, restart_servers_at=STEPS // 2, timeout_s=300.0
    )
    assert outcome.model is not None
    models[outcome.model.version] = outcome.model.flat
    return Run(broker, outcome, offer.layout, models, contributions)


@pytest.fixture(scope="module", params=[1, 2], ids=["gradients", "local steps"])
def run(request: pytest.FixtureRequest) -> Run:
    """One run for all tests, and one with local steps."""
    return run_of(request.param)


def test_every_version_has_the_buffers_of_the_contribution_that_the_ledger_names(run: Run) -> None:
    """To the bit, also across a change of servers, which fold everything again."""
    assert sorted(run.models) == list(range(STEPS + 1))
    assert {record.buffers_of for record in run.outcome.state.versions.values()} == {0}
    for version in range(1, STEPS + 1):
        ada, bob = (run.contributions[worker, version - 1].flat for worker in WORKERS)
        assert run.buffers(run.models[version]) == run.buffers(ada) != run.buffers(bob)


def test_the_run_is_proven_by_its_log(run: Run) -> None:
    """Recomputing it from the deltas gives the recorded digests, those of buffers included."""
    report = Log.of(run.broker, "everything").verify()
    assert report.is_proven
    assert report.equal == STEPS + 1
    assert run.outcome.undecodable == 0


def test_every_reader_of_the_last_version_has_its_bits(run: Run) -> None:
    """With dtypes, shapes and ties; one worker's statistics, and every batch of its counted."""
    model = Everything()
    load_parameters(model, run.layout, run.models[STEPS])
    ada = run.contributions["ada", STEPS - 1]
    steps_a_clock = int(model.norm.num_batches_tracked or 0) // STEPS
    assert (model.seen.dtype, model.seen.shape, int(model.seen)) == (torch.int64, (), 8 * STEPS * steps_a_clock)
    assert (model.kept.dtype, model.wide.dtype) == (torch.bool, torch.float64)
    assert model.norm.running_var is not None
    assert float(model.norm.running_var.max()) < 100.0
    assert model.second.weight is model.first.weight
    assert (model.scale.shape, model.empty.shape) == ((), (0, 4))
    assert not model.conv.weight.is_contiguous()
    assert run.buffers(flatten_parameters(model, run.layout)) == run.buffers(ada.flat)


def test_a_version_has_the_same_evaluation_on_every_evaluator(run: Run) -> None:
    """Whatever statistics the model has seen before."""
    task = Scaled()
    fresh, used = build_model(task, 1), build_model(task, 2)
    used.train()
    with torch.no_grad():
        used(1000.0 * torch.randn(9, 2, 4, 4))
    found = [evaluate(task, model, run.layout, run.models[STEPS]) for model in (fresh, used, fresh)]
    assert found[0] == found[1] == found[2]


def test_the_master_of_a_bfloat16_parameter_is_no_bfloat16(run: Run) -> None:
    """It went on in float32."""
    head = next(one for one in run.layout.segments if one.name == "head.weight")
    master = torch.from_numpy(run.models[STEPS][head.offset : head.stop].copy())
    assert head.dtype == "bfloat16"
    assert not torch.equal(master.to(torch.bfloat16).float(), master)
    assert np.isfinite(run.models[STEPS][: head.stop]).all()
