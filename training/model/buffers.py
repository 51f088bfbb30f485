"""What a worker's buffers are after a clock: they ride in its contribution, as they are, beside its gradients."""

from dataclasses import replace

import torch
from torch import nn

from driftline.producers.deltas import Gradient
from driftline.schemas.model.dtypes import BUFFER
from driftline.schemas.model.layout import Layout
from driftline.training.model.layout import FlatArray, bound_buffers
from driftline.training.model.tensor_bytes import read_tensor, tensor_of


def with_buffers(model: nn.Module, layout: Layout, base: FlatArray, gradient: Gradient) -> Gradient | str:
    """Put the values of a model's buffers into a contribution, or say why it must not be made.

    One broken batch must not become everybody's running statistics: a floating-point buffer that was finite in the
    version and no longer is makes the contribution unusable. What is not finite from the start, a mask of -inf, may be.

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
