"""What a worker computes: a task's gradient on the batch that its name and position in the run ask for."""

import math
from dataclasses import dataclass, replace

import numpy as np
from torch import nn

from driftline.consumers.follower import Model
from driftline.producers.deltas import Gradient
from driftline.producers.proposal import Offer
from driftline.schemas.layout import Layout
from driftline.training.data import DataPlan, Indices, part_of
from driftline.training.gradients import collect_gradients, loss_of
from driftline.training.model_layout import describe, flatten_parameters, load_parameters
from driftline.training.optimizer_settings import build_optimizer
from driftline.training.randomness import build_model, seed_everything, set_torch_defaults
from driftline.training.run_settings import RunSettings
from driftline.training.task import Dataset, Task, read_batch


@dataclass(frozen=True, slots=True)
class Skipped:
    """No gradient this time, and why."""

    reason: str


class Computing:
    """Model, data and loss of one worker process.

    Args:
        task: what is trained.
        settings: the run as this worker would start it.

    Raises:
        ConfigError: lists everything about model, optimizer and settings that cannot be trained.
    """

    def __init__(self, task: Task, settings: RunSettings) -> None:
        set_torch_defaults()
        task.prepare()
        self._task = task
        self._seed = settings.seed
        self._local = settings.local
        self._model: nn.Module = build_model(task, settings.seed)
        self._optimizer = build_optimizer(task, self._model)
        self._data: Dataset = task.data("train")
        layout, rule = describe(self._model, self._optimizer, settings.partitions)
        if self._local.steps > 1:
            layout, rule = one_group(layout), settings.outer_rule()
        config = settings.freeze(rule, samples=len(self._data), batch_size=task.batch_size)
        self.offer = Offer(config=config, layout=layout, masters=flatten_parameters(self._model, layout))

    def note(self, worker: str, first_names: tuple[str, ...]) -> str:
        """Say what a person should know about this worker's part of the data, or nothing."""
        return part_of(worker, first_names).note

    def gradient(
        self, model: Model, *, worker: str, start: int, cursor: int, clock: int, first_names: tuple[str, ...]
    ) -> Gradient | Skipped:
        """Compute the gradient of batch ``cursor`` of this worker's part on a version of the model."""
        part = part_of(worker, first_names)
        plan = DataPlan(len(self._data), part.ranks, self._task.batch_size, self._seed)
        first = cursor * self._local.steps
        batches = [plan.batch(part.rank, first + step).indices for step in range(self._local.steps)]
        batches = [indices for indices in batches if len(indices)]
        if not batches:
            return Skipped("no data left in this epoch")
        load_parameters(self._model, self.offer.layout, model.flat)
        seed_everything(self._seed, worker, start, clock)
        self._model.train()
        if self._local.steps > 1:
            return self._after_local_steps(model, batches, cursor)
        mean, weight = self._backward(batches[0])
        found = collect_gradients(self._model, self.offer.layout, self._local.clip_norm or None)
        if found.not_finite:
            return Skipped(f"not finite: {', '.join(found.not_finite)}")
        return Gradient(flat=found.flat, presence=found.present.tolist(), weight=weight, loss=mean, cursor=cursor)

    def _backward(self, indices: Indices) -> tuple[float, float]:
        self._model.zero_grad(set_to_none=True)
        mean, weight = loss_of(self._task, self._model, read_batch(self._task, self._data, indices))
        mean.backward()  # type: ignore[no-untyped-call]
        return float(mean.detach()), float(weight)

    def _after_local_steps(self, model: Model, batches: list[Indices], cursor: int) -> Gradient | Skipped:
        """Step the task's own optimizer, whose state stays with this worker, and contribute ``base - local``."""
        losses: list[tuple[float, float]] = []
        for indices in batches:
            losses.append(self._backward(indices))
            if self._local.clip_norm:
                nn.utils.clip_grad_norm_(self._model.parameters(), self._local.clip_norm)
            self._optimizer.step()
        layout = self.offer.layout
        flat = np.subtract(model.flat, flatten_parameters(self._model, layout))
        if not np.isfinite(flat).all():
            return Skipped(f"not finite after {len(batches)} local steps")
        weight = sum(one for _, one in losses)
        loss = sum(mean * one for mean, one in losses) / weight if weight else math.nan
        presence = [segment.kind == "parameter" for segment in layout.segments]
        return Gradient(flat=flat, presence=presence, weight=weight, loss=loss, cursor=cursor)


def one_group(layout: Layout) -> Layout:
    """Return a layout whose parameters are all in the one group of the outer rule."""
    segments = (replace(one, group=0) if one.kind == "parameter" else one for one in layout.segments)
    return Layout(tuple(segments), layout.partitions)
