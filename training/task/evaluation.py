"""Metrics of one version of the model: one version, one answer, on every machine."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from driftline.errors import UsageError
from driftline.schemas.model.layout import Layout
from driftline.training.model.layout import FlatArray, load_parameters
from driftline.training.task import Dataset, Task, read_batch
from driftline.training.task.parts import read_data
from driftline.training.task.randomness import seeded


def evaluate(
    task: Task, model: nn.Module, layout: Layout, flat: FlatArray, dataset: Dataset | None = None
) -> dict[str, float]:
    """Load parameters into a model and measure it on the test split, in the order of that split.

    The model is in evaluation mode meanwhile, without gradients, and random numbers start from a fixed seed. Training
    modes and the random generators are put back afterwards; the parameters stay those of ``flat``.

    Args:
        task: whose metrics are asked for.
        model: takes the parameters; give one of its own to an evaluator that runs beside training.
        layout: of the run.
        flat: shape (layout.elements,), float32.
        dataset: the test split, if it is at hand already.

    Returns:
        Metric name → number. A diverged model may well give NaN.

    Raises:
        RunRefused: the model does not fit the layout.
        UsageError: the task gives no test samples, or metrics that are no numbers.
    """
    samples = read_data(task, "test") if dataset is None else dataset
    if not len(samples):
        raise UsageError(f"task {type(task).__name__} has no test samples; data('test') must return at least one")
    load_parameters(model, layout, flat)
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad(), seeded("evaluation"):
            metrics = task.metrics(model, batches(task, samples))
    finally:
        for module, training in modes:
            module.training = training
    return _numbers(metrics, type(task).__name__)


def batches(task: Task, dataset: Dataset) -> Iterator[Any]:
    """Yield a data set in order, in batches of the task's batch size; the last may be smaller."""
    for start in range(0, len(dataset), task.batch_size):
        yield read_batch(task, dataset, range(start, min(start + task.batch_size, len(dataset))))


def _numbers(metrics: Any, task: str) -> dict[str, float]:
    try:
        return {str(name): float(value) for name, value in metrics.items()}
    except (AttributeError, TypeError, ValueError, RuntimeError):
        raise UsageError(f"metrics() of task {task} must return names with one number each, got {metrics!r}") from None
