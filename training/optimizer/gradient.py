"""What one `step()` contributes: gradients as torch left them, unscaled, with a weight and a loss."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from driftline.errors import RunRefused, UsageError
from driftline.ledger.policy import LEAST_WEIGHT, MOST_WEIGHT, weight_problem
from driftline.producers.deltas import Gradient
from driftline.schemas.model.layout import Layout
from driftline.training.model.gradients import collect_gradients, with_buffers
from driftline.training.model.layout import FlatArray
from driftline.training.model.tensors import named_tensors


class GradientWatcher(Protocol):
    """Learns of every gradient that a backward pass makes."""

    def touch(self) -> None:
        """See `Steps.touch`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """What a script reports of one step, beside its gradients.

    Attributes:
        weight: of the contribution, see `read_weight`.
        loss: NaN if the script gives none.
        scale: by which a GradScaler has multiplied the loss; 1 without one.
        overflow: why a GradScaler cannot use the gradients; empty if it can.
    """

    weight: float
    loss: float
    scale: float
    overflow: str


def gradient_of(
    model: nn.Module, layout: Layout, base: FlatArray, report: StepReport, cursor: int, clip_norm: float
) -> Gradient | str:
    """Copy the gradients of a model, and its buffers, or return why there is nothing to contribute.

    Args:
        model: after ``backward()``.
        layout: of the run.
        base: the version that the step began with, float32, shape (layout.elements,).
        report: of this step.
        cursor: how many steps this script has made, this one included.
        clip_norm: largest 2-norm of the unscaled gradient; 0 does not clip.

    Returns:
        A gradient without samples and learning rates.

    Raises:
        RunRefused: gradients are sparse or of another type; names every one.
    """
    found = collect_gradients(model, layout)
    if not found.present.any():
        return "no parameter has a gradient"
    if found.not_finite:
        return f"not finite: {', '.join(found.not_finite)}"
    norm = found.norm / report.scale
    shrink = clip_norm / norm if clip_norm and norm > clip_norm else 1.0
    _multiply(found.flat, layout, shrink / report.scale)
    gradient = Gradient(
        flat=found.flat,
        presence=found.present.tolist(),
        weight=report.weight,
        loss=report.loss,
        cursor=cursor,
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
    """Return a contribution's weight as a number; 1 where a script gives none.

    Raises:
        UsageError: it cannot be a weight.
    """
    number = 1.0 if weight is None else _number("weight", weight)
    if weight_problem(number):
        raise UsageError(
            f"weight is {number}: the loss is a mean over it, usually the number of samples, so it is 0 "
            f"or a number from {LEAST_WEIGHT:.0e} to {MOST_WEIGHT:.0e}"
        )
    return number


def read_loss(loss: Any) -> float:
    """Return a loss as a number; NaN where a script gives none.

    Raises:
        UsageError: it is not a number.
    """
    return math.nan if loss is None else _number("loss", loss)


def loss_of_closure(found: Any) -> float:
    """Return the loss that a closure gave; NaN if it gave something else, as torch lets it."""
    if isinstance(found, torch.Tensor):
        return float(found.detach()) if found.numel() == 1 else math.nan
    return float(found) if isinstance(found, Real) else math.nan


def first_gradient(model: nn.Module) -> torch.Tensor | None:
    """Return the gradient of the first parameter that has one."""
    return next((one.grad for one in model.parameters() if one.grad is not None), None)


def watch_gradients(model: nn.Module, owner: Callable[[], GradientWatcher | None]) -> list[Any]:
    """Report every gradient to ``owner``, and refuse sparse ones in the backward pass that makes them.

    Returns:
        The hooks, to be removed.
    """
    return [
        named.parameter.register_post_accumulate_grad_hook(_watcher(named.name, owner))  # type: ignore[no-untyped-call]
        for named in named_tensors(model)
        if named.parameter.requires_grad
    ]


def _watcher(name: str, owner: Callable[[], GradientWatcher | None]) -> Callable[[torch.Tensor], None]:
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
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, Real):
        raise UsageError(f"{name} is {value!r}, not a number")
    return float(value)
