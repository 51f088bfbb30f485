"""What a worker computes: a task's gradient on the batch that its name and position in the run ask for."""

from dataclasses import dataclass

from torch import nn

from driftline.consumers.follower import Model
from driftline.producers.deltas import Gradient
from driftline.producers.proposal import Offer
from driftline.training.data import DataPlan, part_of
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
        self._model: nn.Module = build_model(task, settings.seed)
        self._data: Dataset = task.data("train")
        layout, rule = describe(self._model, build_optimizer(task, self._model), settings.partitions)
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
        indices = plan.batch(part.rank, cursor).indices
        if len(indices) == 0:
            return Skipped("no data left in this epoch")
        load_parameters(self._model, self.offer.layout, model.flat)
        seed_everything(self._seed, worker, start, clock)
        self._model.train()
        self._model.zero_grad(set_to_none=True)
        mean, weight = loss_of(self._task, self._model, read_batch(self._task, self._data, indices))
        mean.backward()  # type: ignore[no-untyped-call]
        found = collect_gradients(self._model, self.offer.layout)
        if found.not_finite:
            return Skipped(f"not finite: {', '.join(found.not_finite)}")
        return Gradient(
            flat=found.flat,
            presence=found.present.tolist(),
            weight=float(weight),
            loss=float(mean.detach()),
            cursor=cursor,
        )
