"""The parts of a task, called, and what they return checked: its model, its optimizer and its loss."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn, optim

from driftline.errors import UsageError
from driftline.ledger.policy import LEAST_WEIGHT, MOST_WEIGHT, weight_problem
from driftline.training.task import Dataset, Task
from driftline.training.task.randomness import seeded


def build_model(task: Task, seed: int) -> nn.Module:
    """Build the task's model with weights that depend on the run's seed alone: every worker builds the same one.

    Args:
        task: whose `Task.model` is called.
        seed: the run's seed.

    Raises:
        UsageError: what the task builds is no torch module.
    """
    with seeded("model", seed):
        model: object = task.model()
    if not isinstance(model, nn.Module):
        raise UsageError(f"model() of task {type(task).__name__} returned a {type(model).__name__}, not a torch module")
    return model


def read_data(task: Task, split: str) -> Dataset:
    """Return the samples of a split.

    Random numbers are seeded alike for every process and for both splits: a `random_split` without a generator gives
    every worker the same samples, and the evaluator none of them.
    """
    with seeded("data"):
        return task.data(split)


def build_optimizer(task: Task, model: nn.Module) -> optim.Optimizer:
    """Build the task's optimizer without importing torch's compiler, which a new optimizer otherwise does.

    That import is most of the start of a worker that trains a small model, and this optimizer never steps.

    Raises:
        UsageError: what the task builds is no torch optimizer.
    """
    with _without_compiler():
        optimizer: object = task.optimizer(model)
    if not isinstance(optimizer, optim.Optimizer):
        found = type(optimizer).__name__
        raise UsageError(f"optimizer() of task {type(task).__name__} returned a {found}, not a torch optimizer")
    return optimizer


@contextmanager
def _without_compiler() -> Iterator[None]:
    # torch takes a function's mark as "already kept from the compiler" and then calls the function as it is. Where
    # torch has no such mark, or the compiler is there already, nothing is gained and nothing changes.
    inner = getattr(optim.Optimizer.add_param_group, "__wrapped__", None)
    if inner is None or "torch._dynamo" in sys.modules or hasattr(inner, _MARK):
        yield
        return
    setattr(inner, _MARK, inner)
    try:
        yield
    finally:
        delattr(inner, _MARK)


_MARK = "__dynamo_disable"


def loss_of(task: Task, model: nn.Module, batch: Any) -> tuple[torch.Tensor, float]:
    """Compute a task's loss, and check what the task returns.

    Returns:
        The mean loss, shape (), and its denominator, which is the weight of this worker's gradient: finite, at least 0.

    Raises:
        UsageError: the task returns something else; says what.
    """
    found: Any = task.loss(model, batch)
    where = f"loss() of task {type(task).__name__}"
    if not (isinstance(found, tuple) and len(found) == 2):  # noqa: PLR2004 - a pair
        raise UsageError(f"{where} must return (mean, denominator), got a {type(found).__name__}")
    mean, denominator = found
    if not (isinstance(mean, torch.Tensor) and mean.shape == () and mean.requires_grad):
        raise UsageError(f"{where}: the mean must be one number that depends on the parameters, got {mean!r}")
    weight = float(denominator)
    if weight_problem(weight):
        raise UsageError(
            f"{where}: the denominator is {weight}; it must be finite and at least 0, and from {LEAST_WEIGHT:.0e} to "
            f"{MOST_WEIGHT:.0e} if it is not 0"
        )
    return mean, weight
