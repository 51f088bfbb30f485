"""Between a torch model and one flat float32 vector.

The order of segments is that of ``model.named_parameters()``: it is the model's own, the same in every process that
builds the same class, and it does not change when parameters move between the optimizer's groups. On the wire a tensor
is always in C order of its logical shape, whatever its strides are here (channels-last, slices of a larger buffer).

A parameter that the optimizer does not hold, or that needs no gradient, is ``frozen``: part of version 0, never
stepped. Tied weights are one segment, under the first of their names; the others are its aliases. Parameters held in
bfloat16 or float16 are float32 in the vector, and rounded to nearest, ties to even, when they are loaded.

Persistent buffers follow the parameters, in the order of ``model.named_buffers()``, as bytes (`tensors`).
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import nn, optim

from driftline.errors import ConfigError, RunRefused
from driftline.schemas.model.dtypes import BUFFER, FROZEN, PARAMETER
from driftline.schemas.model.layout import Layout, Segment
from driftline.schemas.run.config import RuleConfig
from driftline.training.model.problems import model_problems
from driftline.training.model.rule import group_of_parameters, rule_of, rule_problems
from driftline.training.model.tensors import (
    NamedBuffer,
    NamedParameter,
    dtype_name,
    named_buffers,
    named_tensors,
    read_tensor,
    tensor_of,
    write_tensor,
)

__all__ = [
    "FlatArray",
    "bound",
    "bound_buffers",
    "describe",
    "flatten_parameters",
    "load_parameters",
    "named_tensors",
    "segment_tensor",
    "state_dict_of",
]


class ModelDiffers(RunRefused):
    """A model that is not that of the run; ``details`` has a line for each difference."""

    def __init__(self, details: str) -> None:
        super().__init__(f"this model is not that of the run:\n{details}")
        self.details = details


FlatArray: TypeAlias = npt.NDArray[np.float32]


def describe(model: nn.Module, optimizer: optim.Optimizer, partitions: int) -> tuple[Layout, RuleConfig]:
    """Return the layout of a model and the update rule of its optimizer.

    Args:
        model: on any device.
        optimizer: holds the parameters to train; is only read.
        partitions: of the deltas topic, P.

    Raises:
        ConfigError: lists everything about model and optimizer that this release cannot train, by name.
    """
    problems = model_problems(model, optimizer) + rule_problems(optimizer)
    if problems:
        raise ConfigError(problems)
    groups = group_of_parameters(optimizer)
    segments: list[Segment] = []
    for named in _tensors(model):
        segments.append(_segment(named, groups, segments[-1].stop if segments else 0))
    return Layout(tuple(segments), partitions), rule_of(optimizer)


def flatten_parameters(model: nn.Module, layout: Layout) -> FlatArray:
    """Copy a model's parameters and buffers into a new flat vector, shape (layout.elements,), float32.

    Raises:
        RunRefused: the model does not fit the layout; says where.
    """
    flat = np.zeros(layout.elements, dtype=np.float32)
    for segment, tensor in _bound(model, layout):
        if segment.kind == BUFFER:
            read_tensor(tensor, flat[segment.offset : segment.stop])
        else:
            segment_tensor(flat, segment).copy_(tensor.detach())
    return flat


def load_parameters(model: nn.Module, layout: Layout, flat: FlatArray) -> None:
    """Copy a flat vector into a model, in place: tensors keep their memory, strides and ties.

    Args:
        model: fits the layout.
        layout: of the run.
        flat: shape (layout.elements,), float32. May be read-only memory of a message; nothing refers to it afterwards.

    Raises:
        RunRefused: the model does not fit the layout; says where.
        ValueError: ``flat`` has another shape or dtype.
    """
    if flat.shape != (layout.elements,) or flat.dtype != np.float32:
        raise ValueError(f"flat is {flat.dtype} of shape {flat.shape}, not float32 of shape ({layout.elements},)")
    pairs = list(_bound(model, layout))  # all or nothing: a model that does not fit is left as it was
    with torch.no_grad():
        for segment, tensor in pairs:
            piece = flat[segment.offset : segment.stop]
            if segment.kind == BUFFER:
                write_tensor(piece, tensor)
                continue
            # torch warns about read-only memory and cannot take foreign byte order or gaps; then one more copy.
            plain = piece.flags.writeable and piece.flags.c_contiguous and piece.dtype.isnative
            own = piece if plain else np.array(piece, dtype=np.float32, order="C")
            tensor.copy_(torch.from_numpy(own).reshape(segment.shape))


def state_dict_of(layout: Layout, flat: FlatArray) -> dict[str, Any]:
    """Return a flat vector, float32[elements], as name → tensor with memory of its own, in the model's own dtypes."""
    state: dict[str, Any] = {}
    for segment in layout.segments:
        dtype = getattr(torch, segment.dtype)
        if segment.kind == BUFFER:
            tensor = tensor_of(flat[segment.offset : segment.stop], dtype, segment.shape)
        else:
            tensor = segment_tensor(flat, segment).to(dtype, copy=True)
        state |= dict.fromkeys((segment.name, *segment.aliases), tensor)
    return state


def segment_tensor(flat: FlatArray, segment: Segment) -> torch.Tensor:
    """Return a parameter's segment of a vector as a float32 tensor of its shape that shares the vector's memory."""
    return torch.from_numpy(flat[segment.offset : segment.stop]).view(segment.shape)


def bound(model: nn.Module, layout: Layout) -> Iterator[tuple[Segment, nn.Parameter]]:
    """Return each segment of a parameter, which come first in a layout, with that parameter.

    Raises:
        RunRefused: the model does not fit the layout; says where.
    """
    pairs = _bound(model, layout)
    return (
        (segment, tensor)
        for segment, tensor in pairs
        if segment.kind != BUFFER and isinstance(tensor, nn.Parameter)  # a buffer may be a Parameter, too
    )


def bound_buffers(model: nn.Module, layout: Layout) -> Iterator[tuple[Segment, torch.Tensor]]:
    """Return each segment of a buffer with that buffer.

    Raises:
        RunRefused: the model does not fit the layout; says where.
    """
    pairs = _bound(model, layout)
    return ((segment, tensor) for segment, tensor in pairs if segment.kind == BUFFER)


def _bound(model: nn.Module, layout: Layout) -> Iterator[tuple[Segment, torch.Tensor]]:
    tensors = _tensors(model)
    differences = _differences(tensors, layout)
    if differences:
        raise ModelDiffers("\n".join(differences))
    return zip(layout.segments, (named.tensor for named in tensors), strict=True)


def _tensors(model: nn.Module) -> tuple[NamedParameter | NamedBuffer, ...]:
    return *named_tensors(model), *named_buffers(model)


def _segment(named: NamedParameter | NamedBuffer, groups: Mapping[nn.Parameter, int], offset: int) -> Segment:
    kind, group = BUFFER, -1
    if isinstance(named, NamedParameter):
        group = groups.get(named.parameter, -1)
        kind = PARAMETER if named.parameter.requires_grad and group >= 0 else FROZEN
    return Segment(
        name=named.name,
        aliases=named.aliases,
        shape=tuple(named.tensor.shape),
        dtype=dtype_name(named.tensor),
        kind=kind,
        group=group,
        offset=offset,
    )


def _differences(tensors: tuple[NamedParameter | NamedBuffer, ...], layout: Layout) -> list[str]:
    fits = len(tensors) == len(layout.segments) and all(
        named.name == segment.name
        and named.aliases == segment.aliases
        and tuple(named.tensor.shape) == segment.shape
        and dtype_name(named.tensor) == segment.dtype
        and isinstance(named, NamedBuffer) == (segment.kind == BUFFER)
        for named, segment in zip(tensors, layout.segments, strict=True)
    )
    return [] if fits else _explained(tensors, layout)


def _explained(tensors: tuple[NamedParameter | NamedBuffer, ...], layout: Layout) -> list[str]:
    run = {segment.name: segment for segment in layout.segments}
    here = {named.name: named for named in tensors}
    lines = [f"{name}: in the run, not in this model" for name in run if name not in here]
    for name, named in here.items():
        if name not in run:
            lines.append(f"{name}: in this model, not in the run")
            continue
        pairs = (
            ("shape", tuple(named.tensor.shape), run[name].shape),
            ("dtype", dtype_name(named.tensor), run[name].dtype),
            ("kind", _kind(isinstance(named, NamedBuffer)), _kind(run[name].kind == BUFFER)),
            ("tied names", named.aliases, run[name].aliases),
        )
        lines += [f"{name}: {word} {ours} here, {theirs} in the run" for word, ours, theirs in pairs if ours != theirs]
    return lines or [f"order of tensors: {', '.join(here)} here, {', '.join(run)} in the run"]


def _kind(is_buffer: bool) -> str:  # noqa: FBT001 - one of two words
    return "buffer" if is_buffer else "parameter"
