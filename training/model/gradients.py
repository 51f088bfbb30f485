"""From ``parameter.grad`` to one flat float32 vector, of one batch or of several; buffers ride in it as they are.

No gradient is not a zero gradient: a parameter that took no part has the flag "absent", and the servers then leave it
as it is, without decay or step count. The vector is always new memory in C order of the logical shapes, so the next
backward pass cannot change what is being sent.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from driftline.errors import RunRefused
from driftline.producers.deltas import Gradient
from driftline.schemas.model.dtypes import BUFFER, PARAMETER_DTYPES
from driftline.schemas.model.layout import Layout
from driftline.training.model.layout import FlatArray, bound, bound_buffers, segment_tensor
from driftline.training.model.tensors import dtype_name, read_tensor, tensor_of


@dataclass(frozen=True, slots=True)
class CollectedGradient:
    """The gradient of a worker's mean loss.

    Attributes:
        flat: shape (layout.elements,), float32; 0.0 where absent, and where buffers lie. Belongs to the caller.
        present: shape (segments,), bool: whether a segment has a gradient.
        not_finite: names of segments with an infinity or NaN; such a gradient must not be sent.
        norm: 2-norm over all elements before clipping; NaN or infinite if ``not_finite`` is not empty.
    """

    flat: FlatArray
    present: npt.NDArray[np.bool_]
    not_finite: tuple[str, ...]
    norm: float


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


class WeightedMean:
    """The gradient of several batches: Σ nᵢ gᵢ / Σ nᵢ, with n the denominators of their mean losses.

    In float32, in the order in which the batches were read. Weights are taken relative to the first one above 0, so
    that batches of one size are added as they are, and one batch alone comes out to the bit. A batch with n = 0 counts
    for nothing, whatever its gradient is.

    Attributes:
        weight: Σ nᵢ.
    """

    def __init__(self) -> None:
        self.weight = 0.0
        self._first = 0.0
        self._shares = np.float32(0.0)
        self._loss = 0.0
        self._flat: FlatArray | None = None
        self._present: np.ndarray | None = None

    def add(self, found: CollectedGradient, mean: float, weight: float) -> None:
        """Add a batch: its gradient, which is ours from now on, its mean loss and its denominator."""
        if weight == 0:
            return
        self.weight += weight
        self._loss += mean * weight
        if self._flat is None or self._present is None:
            self._first, self._shares = weight, np.float32(1.0)
            self._flat, self._present = found.flat, found.present
            return
        share = np.float32(weight / self._first)
        self._shares += share
        np.multiply(found.flat, share, out=found.flat)
        np.add(self._flat, found.flat, out=self._flat)
        np.logical_or(self._present, found.present, out=self._present)

    @property
    def loss(self) -> float:
        """Σ nᵢ lᵢ / Σ nᵢ; NaN if nothing counts."""
        return self._loss / self.weight if self.weight else math.nan

    def result(self, elements: int, segments: int) -> tuple[FlatArray, list[bool]]:
        """Return the mean, shape (elements,), float32, and which of the segments any batch has a gradient for."""
        if self._flat is None or self._present is None:
            return np.zeros(elements, dtype=np.float32), [False] * segments
        np.divide(self._flat, self._shares, out=self._flat)
        return self._flat, self._present.tolist()


def with_buffers(model: nn.Module, layout: Layout, base: FlatArray, gradient: Gradient) -> Gradient | str:
    """Put the values of a model's buffers into a contribution, or return why it must not be made.

    One broken batch must not become the running statistics of all workers: a floating-point buffer that was finite in
    the version and no longer is makes the contribution unusable. What is not finite from the start, a mask of -inf, may
    be.

    Args:
        model: after the clock.
        layout: of the run.
        base: the version that the clock began with, float32, shape (layout.elements,).
        gradient: finished, clipped and scaled; its vector is written to.

    Raises:
        RunRefused: the model does not fit the layout; says where.
    """
    presence, broken = list(gradient.presence), []
    for index, segment in enumerate(layout.segments):
        presence[index] = presence[index] or segment.kind == BUFFER
    for segment, buffer in bound_buffers(model, layout):
        read_tensor(buffer, gradient.flat[segment.offset : segment.stop])
        before = base[segment.offset : segment.stop]
        if not _is_finite(buffer) and _is_finite(tensor_of(before, buffer.dtype, segment.shape)):
            broken.append(segment.name)
    return f"not finite: {', '.join(broken)}" if broken else replace(gradient, presence=presence)


def _is_finite(buffer: torch.Tensor) -> bool:
    return bool(torch.isfinite(buffer).all())
