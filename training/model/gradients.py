"""From a task's loss and ``parameter.grad`` to one flat float32 vector.

No gradient is not a zero gradient: a parameter that took no part has the flag "absent", and the servers then leave it
as it is, without decay or step count. The vector is always new memory in C order of the logical shapes, so the next
backward pass cannot change what is being sent.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from driftline.errors import RunRefused, UsageError
from driftline.ledger.weights import LEAST_WEIGHT, MOST_WEIGHT, weight_problem
from driftline.schemas.model.dtypes import PARAMETER_DTYPES
from driftline.schemas.model.layout import Layout
from driftline.training.model.layout import FlatArray, bound, segment_tensor
from driftline.training.model.tensors import dtype_name

if TYPE_CHECKING:
    from driftline.training.task import Task


@dataclass(frozen=True, slots=True)
class CollectedGradient:
    """The gradient of a worker's mean loss.

    Attributes:
        flat: shape (layout.elements,), float32; 0.0 where absent, and where buffers lie. Belongs to whoever called.
        present: shape (segments,), bool: whether a segment has a gradient.
        not_finite: names of segments with an infinity or NaN; such a gradient must not be sent.
        norm: 2-norm over all elements before clipping; NaN or infinite if ``not_finite`` is not empty.
    """

    flat: FlatArray
    present: npt.NDArray[np.bool_]
    not_finite: tuple[str, ...]
    norm: float


def loss_of(task: "Task", model: nn.Module, batch: Any) -> tuple[torch.Tensor, float]:
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


def collect_gradients(model: nn.Module, layout: Layout, clip_norm: float | None = None) -> CollectedGradient:
    """Copy the gradients of a model, and optionally clip them.

    Clipping is by the norm of **this worker's** gradient, before the mean over workers is taken. So it is not what
    DistributedDataParallel with ``clip_grad_norm_`` does: that clips the mean. A gradient that is not finite is not
    clipped.

    Args:
        model: after ``backward()``; its gradients stay as they are.
        layout: of the run.
        clip_norm: the largest 2-norm to let through, above 0; None for no clipping.

    Raises:
        RunRefused: the model does not fit the layout, or gradients are sparse or of a dtype that float32 does not hold;
            names every one.
        ValueError: ``clip_norm`` is not above 0.
    """
    flat = np.zeros(layout.elements, dtype=np.float32)
    present = np.zeros(len(layout.segments), dtype=np.bool_)
    problems = []
    for index, (segment, parameter) in enumerate(bound(model, layout)):
        gradient = parameter.grad
        if gradient is None or segment.kind == "frozen":
            continue
        problem = _problem(segment.name, gradient)
        if problem:
            problems.append(problem)
            continue
        segment_tensor(flat, segment).copy_(gradient.detach())
        present[index] = True
    if problems:
        raise RunRefused("\n".join(problems))
    not_finite = not_finite_names(flat, layout)
    norm = _norm(flat, layout)
    if clip_norm is not None and not not_finite:
        _clip(flat, norm, clip_norm)
    return CollectedGradient(flat, present, not_finite, norm)


def clip(flat: FlatArray, layout: Layout, clip_norm: float) -> None:
    """Scale a gradient, shape (layout.elements,), float32 and finite, in place to a 2-norm of at most ``clip_norm``.

    Raises:
        ValueError: ``clip_norm`` is not above 0.
    """
    _clip(flat, _norm(flat, layout), clip_norm)


def _problem(name: str, gradient: torch.Tensor) -> str:
    if gradient.layout != torch.strided:
        return f"the gradient of {name} is sparse, which this release cannot send; build the layer with sparse=False"
    if dtype_name(gradient) not in PARAMETER_DTYPES:
        dtypes = ", ".join(PARAMETER_DTYPES)
        return f"the gradient of {name} is {dtype_name(gradient)}, none of {dtypes}; leave its grad_dtype as it is"
    return ""


def not_finite_names(flat: FlatArray, layout: Layout) -> tuple[str, ...]:
    """Return the names of the segments of a flat vector that hold an infinity or NaN."""
    if np.isfinite(flat).all():
        return ()
    return tuple(
        segment.name for segment in layout.segments if not np.isfinite(flat[segment.offset : segment.stop]).all()
    )


def _norm(flat: FlatArray, layout: Layout) -> float:
    # Squares in float64, because those of float32 overflow from 1e19 on; a segment at a time, to need little memory.
    # numpy's sum, not BLAS's: it does not depend on the number of threads.
    squares = (
        float(np.sum(np.square(flat[segment.offset : segment.stop], dtype=np.float64))) for segment in layout.segments
    )
    return math.sqrt(sum(squares))


def _clip(flat: FlatArray, norm: float, clip_norm: float) -> None:
    if not clip_norm > 0:
        raise ValueError(f"clip_norm is {clip_norm}; it must be above 0, or None for no clipping")
    if norm > clip_norm:
        np.multiply(flat, np.float32(clip_norm / norm), out=flat)
