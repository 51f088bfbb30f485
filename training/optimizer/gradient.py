"""What one `step()` contributes: gradients as torch left them, unscaled, with a weight and a loss."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from driftline.errors import RunRefused, UsageError
from driftline.ledger.weights import LEAST_WEIGHT, MOST_WEIGHT, weight_problem
from driftline.producers.deltas import Gradient
from driftline.schemas.model.layout import Layout
from driftline.schemas.records.sample_range import Samples
from driftline.training.model.buffers import with_buffers
from driftline.training.model.gradients import collect_gradients
from driftline.training.model.layout import FlatArray
from driftline.training.model.tensors import named_tensors


class Touched(Protocol):
    """Told that gradients have come."""

    def touch(self) -> None:
        """See `ScriptOptimizer.touch`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a script says of one step, beside its gradients.

    Attributes:
        weight: of the contribution, see `read_weight`.
        loss: NaN if the script does not say.
        scale: by which a GradScaler has multiplied the loss; 1 if the gradients are what they should be.
        cursor: how many steps this script has made, this one included.
        samples: that the gradients are made of, as far as the ledger leases them.
        learning_rates: that the script has set, one a parameter group; empty if the run sets them.
    """

    weight: float
    loss: float
    scale: float
    cursor: int
    learning_rates: tuple[float, ...] = ()
    samples: Samples = ()


def gradient_of(model: nn.Module, layout: Layout, base: FlatArray, said: Said, clip_norm: float) -> Gradient | str:
    """Copy the gradients of a model, and its buffers, or say why there is nothing to contribute.

    Args:
        model: after ``backward()``.
        layout: of the run.
        base: the version that the step began with, float32, shape (layout.elements,).
        said: of this step.
        clip_norm: largest 2-norm of the unscaled gradient; 0 does not clip.

    Raises:
        RunRefused: gradients are sparse or of another type; names every one.
    """
    found = collect_gradients(model, layout)
    if not found.present.any():
        return "no parameter has a gradient"
    if found.not_finite:
        return f"not finite: {', '.join(found.not_finite)}"
    norm = found.norm / said.scale
    shrink = clip_norm / norm if clip_norm and norm > clip_norm else 1.0
    _multiply(found.flat, layout, shrink / said.scale)
    gradient = Gradient(
        flat=found.flat,
        presence=found.present.tolist(),
        weight=said.weight,
        loss=said.loss,
        cursor=said.cursor,
        learning_rates=said.learning_rates,
        samples=said.samples,
    )
    return with_buffers(model, layout, base, gradient) if layout.has_buffers else gradient


def _multiply(flat: FlatArray, layout: Layout, factor: float) -> None:
    if factor == 1.0:
        return
    for segment in layout.segments:
        if segment.kind == "parameter":
            piece = flat[segment.offset : segment.stop]
            np.multiply(piece, np.float32(factor), out=piece)


def read_weight(weight: Any) -> float:
    """Return a contribution's weight as a number; 1 where a script says nothing.

    Raises:
        UsageError: it is none that can count.
    """
    number = 1.0 if weight is None else _number("weight", weight)
    if weight_problem(number):
        raise UsageError(
            f"weight is {number}: it says over how much the loss is a mean, usually the number of samples, so it is 0 "
            f"or a number from {LEAST_WEIGHT:.0e} to {MOST_WEIGHT:.0e}"
        )
    return number


def read_loss(loss: Any) -> float:
    """Return a loss as a number; NaN where a script says nothing.

    Raises:
        UsageError: it is no number.
    """
    return math.nan if loss is None else _number("loss", loss)


def loss_of_closure(found: Any) -> float:
    """Return the loss that a closure gave; NaN if it gave something else, as torch lets it."""
    if isinstance(found, torch.Tensor):
        return float(found.detach()) if found.numel() == 1 else math.nan
    return float(found) if isinstance(found, int | float) else math.nan


def first_gradient(model: nn.Module) -> torch.Tensor | None:
    """Return the gradient of the first parameter that has one."""
    return next((one.grad for one in model.parameters() if one.grad is not None), None)


def watch_gradients(model: nn.Module, owner: Callable[[], Touched | None]) -> list[Any]:
    """Tell ``owner`` of every gradient, and refuse sparse ones in the backward pass that makes them.

    Returns:
        The hooks, to be removed.
    """
    return [
        named.parameter.register_post_accumulate_grad_hook(_watcher(named.name, owner))  # type: ignore[no-untyped-call]
        for named in named_tensors(model)
        if named.parameter.requires_grad
    ]


def _watcher(name: str, owner: Callable[[], Touched | None]) -> Callable[[torch.Tensor], None]:
    def watch(parameter: torch.Tensor) -> None:
        if parameter.grad is not None and parameter.grad.layout != torch.strided:
            raise RunRefused(
                f"the gradient of {name} is sparse, which this release cannot send; build the layer with sparse=False"
            )
        found = owner()
        if found is not None:
            found.touch()

    return watch


def _number(name: str, value: Any) -> float:
    if isinstance(value, torch.Tensor):
        if value.numel() != 1:
            raise UsageError(f"{name} is a tensor of shape {tuple(value.shape)}, not one number")
        return float(value.detach())
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{name} is {value!r}, not a number")
    return float(value)
