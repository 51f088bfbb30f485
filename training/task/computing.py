"""What a worker computes: a task's gradient on the batch that its name and position in the run ask for."""

import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from torch import nn

from driftline.config.freezing import freeze, outer_rule
from driftline.config.run_settings import TASK_SETS_NO_RATES, RunSettings
from driftline.errors import ConfigError
from driftline.ledger.follower import Model
from driftline.producers.deltas import Gradient, NoGradient
from driftline.producers.proposal import Offer
from driftline.schemas.model.layout import Layout
from driftline.schemas.records.sample_range import Samples
from driftline.training.model.gradients import WeightedMean, clip, collect_gradients, not_finite_names, with_buffers
from driftline.training.model.layout import FlatArray, describe, flatten_parameters, load_parameters
from driftline.training.task import Dataset, Task, read_batch
from driftline.training.task.data import ClockBatches, LeasedSamples
from driftline.training.task.parts import build_model, build_optimizer, loss_of, read_data
from driftline.training.task.randomness import seed_everything, set_torch_defaults
from driftline.training.worker.order import Indices

NO_DATA = "no samples are left"


class Computing:
    """Model, data and loss of one worker process.

    Args:
        task: what is trained.
        settings: the run as this worker would start it.
        monotonic: seconds of a clock that never goes back; it measures time boxes and nothing else.

    Attributes:
        batches: that were read by now.

    Raises:
        ConfigError: lists everything about model, optimizer and settings that cannot be trained.
    """

    def __init__(self, task: Task, settings: RunSettings, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        if settings.schedule.is_scripts:
            raise ConfigError([f"schedule: {TASK_SETS_NO_RATES}"])
        set_torch_defaults()
        task.prepare()
        self._task = task
        self._seed = settings.seed
        self._local = settings.local
        self._monotonic = monotonic
        self.batches = 0
        self._model: nn.Module = build_model(task, settings.seed)
        self._optimizer = build_optimizer(task, self._model)
        self._data: Dataset = read_data(task, "train")
        layout, rule = describe(self._model, self._optimizer, settings.partitions)
        if self._local.steps > 1:
            layout, rule = one_group(layout), outer_rule(settings)
        config = freeze(settings, rule, samples=len(self._data), batch_size=task.batch_size)
        self.offer = Offer(config=config, layout=layout, masters=flatten_parameters(self._model, layout))

    def gradient(self, model: Model, *, worker: str, start: int, clock: int, leased: Samples) -> Gradient | NoGradient:
        """Compute what one clock contributes, on a version of the model.

        Args:
            model: the version.
            worker: this worker's name.
            start: how many starts of this worker came before.
            clock: the worker's count of contributions, this one included.
            leased: what it may read.
        """
        data = LeasedSamples(len(self._data), self._seed, leased)
        one = ClockBatches(data, self._task.batch_size, self._local, self._monotonic)
        load_parameters(self._model, self.offer.layout, model.flat)
        # Once a clock: its batches draw from the generators one after another, each something else.
        seed_everything(self._seed, worker, start, clock)
        self._model.train()
        found = self._local_steps(one) if self._local.steps > 1 else self._mean_gradient(one)
        if isinstance(found, Gradient) and self.offer.layout.has_buffers:
            found = with_buffers(self._model, self.offer.layout, model.flat, found)
        return (
            NoGradient(found, data.read, self.batches) if isinstance(found, str) else replace(found, samples=data.read)
        )

    def _mean_gradient(self, one: ClockBatches) -> Gradient | str:
        layout, total, count = self.offer.layout, WeightedMean(), 0
        for indices in one.batches():
            count += 1
            mean, weight = self._backward(indices)
            found = collect_gradients(self._model, layout)
            if found.not_finite and weight:
                return f"not finite: {', '.join(found.not_finite)}"
            total.add(found, mean, weight)
        if not count:
            return NO_DATA
        flat, presence = total.result(layout.elements, len(layout.segments))
        not_finite = not_finite_names(flat, layout)
        if not_finite:
            return f"the sum of {count} batches is not finite: {', '.join(not_finite)}"
        if self._local.clip_norm:
            clip(flat, layout, self._local.clip_norm)
        return Gradient(flat=flat, presence=presence, weight=total.weight, loss=total.loss, cursor=self.batches)

    def _backward(self, indices: Indices) -> tuple[float, float]:
        self.batches += 1
        self._model.zero_grad(set_to_none=True)
        mean, weight = loss_of(self._task, self._model, read_batch(self._task, self._data, indices))
        mean.backward()  # type: ignore[no-untyped-call]
        return float(mean.detach()), float(weight)

    def _local_steps(self, one: ClockBatches) -> Gradient | str:
        """Step the task's own optimizer, whose state stays with this worker, and contribute ``base - local``.

        Both as this worker holds them: what rounding to bfloat16 does to the version is no step.
        """
        layout, losses = self.offer.layout, list[tuple[float, float]]()
        base = flatten_parameters(self._model, layout)
        for indices in one.batches():
            losses.append(self._backward(indices))
            if self._local.clip_norm:
                nn.utils.clip_grad_norm_(self._model.parameters(), self._local.clip_norm)
            self._optimizer.step()
        if not losses:
            return NO_DATA
        flat = _steps_between(layout, base, flatten_parameters(self._model, layout))
        if not np.isfinite(flat).all():
            return f"not finite after {len(losses)} local steps"
        weight = sum(denominator for _, denominator in losses)
        loss = sum(mean * denominator for mean, denominator in losses) / weight if weight else math.nan
        presence = [segment.kind == "parameter" for segment in layout.segments]
        return Gradient(flat=flat, presence=presence, weight=weight, loss=loss, cursor=self.batches)


def _steps_between(layout: Layout, base: FlatArray, local: FlatArray) -> FlatArray:
    """Return ``base - local`` of what is trained, and zeros elsewhere: buffers and masks may be no numbers."""
    flat = np.zeros(layout.elements, np.float32)
    for segment in layout.segments:
        if segment.kind == "parameter":
            part = slice(segment.offset, segment.stop)
            np.subtract(base[part], local[part], out=flat[part])
    return flat


def one_group(layout: Layout) -> Layout:
    """Return a layout whose parameters are all in the one group of the outer rule."""
    segments = (replace(one, group=0) if one.kind == "parameter" else one for one in layout.segments)
    return Layout(tuple(segments), layout.partitions)
