"""Between a torch model and one flat float32 vector.

The order of segments is that of ``model.named_parameters()``: it is the model's own, the same in every process that
builds the same class, and it does not change when parameters move between the optimizer's groups. On the wire a tensor
is always in C order of its logical shape, whatever its strides are here (channels-last, slices of a larger buffer).

A parameter that the optimizer does not hold, or that needs no gradient, is ``frozen``: part of version 0, never
stepped. Tied weights are one segment, under the first of their names; the others are its aliases.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import nn, optim
from torch.nn.parameter import UninitializedParameter

from driftline.errors import ConfigError, RunRefused
from driftline.schemas.layout import Layout, Segment, normalise_name
from driftline.schemas.run_config import RuleConfig
from driftline.training.optimizer_settings import group_of_parameters, rule_of, rule_problems

FlatArray: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class NamedParameter:
    """One tensor of a model: its first name and the others, normalised, and the parameter itself."""

    name: str
    aliases: tuple[str, ...]
    parameter: nn.Parameter


def describe(model: nn.Module, optimizer: optim.Optimizer, partitions: int) -> tuple[Layout, RuleConfig]:
    """Return the layout of a model and the update rule of its optimizer.

    Args:
        model: its parameters are float32, on any device.
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
    for named in named_tensors(model):
        segments.append(_segment(named, groups, segments[-1].stop if segments else 0))
    return Layout(tuple(segments), partitions), rule_of(optimizer)


def named_tensors(model: nn.Module) -> tuple[NamedParameter, ...]:
    """Return every parameter once, with all its names, in the order of ``named_parameters()``."""
    names: dict[nn.Parameter, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(normalise_name(name))
    return tuple(NamedParameter(own[0], tuple(own[1:]), parameter) for parameter, own in names.items())


def flatten_parameters(model: nn.Module, layout: Layout) -> FlatArray:
    """Copy a model's parameters into a new flat vector, shape (layout.elements,), float32.

    Raises:
        RunRefused: the model does not fit the layout; says where.
    """
    flat = np.zeros(layout.elements, dtype=np.float32)
    for segment, parameter in bound(model, layout):
        segment_tensor(flat, segment).copy_(parameter.detach())
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
    pairs = list(bound(model, layout))  # all or nothing: a model that does not fit is left as it was
    with torch.no_grad():
        for segment, parameter in pairs:
            piece = flat[segment.offset : segment.stop]
            # torch warns about read-only memory and cannot take foreign byte order or gaps; then one more copy.
            plain = piece.flags.writeable and piece.flags.c_contiguous and piece.dtype.isnative
            own = piece if plain else np.array(piece, dtype=np.float32, order="C")
            parameter.copy_(torch.from_numpy(own).reshape(segment.shape))


def segment_tensor(flat: FlatArray, segment: Segment) -> torch.Tensor:
    """Return a segment of a vector as a tensor of the segment's shape that shares the vector's memory."""
    return torch.from_numpy(flat[segment.offset : segment.stop]).view(segment.shape)


def bound(model: nn.Module, layout: Layout) -> Iterator[tuple[Segment, nn.Parameter]]:
    """Return each segment with the parameter that it describes.

    Raises:
        RunRefused: the model does not fit the layout; says where.
    """
    tensors = named_tensors(model)
    differences = _differences(tensors, layout)
    if differences:
        raise RunRefused("this model is not that of the run:\n" + "\n".join(differences))
    return zip(layout.segments, (named.parameter for named in tensors), strict=True)


def _segment(named: NamedParameter, groups: dict[nn.Parameter, int], offset: int) -> Segment:
    trained = named.parameter.requires_grad and named.parameter in groups
    return Segment(
        name=named.name,
        aliases=named.aliases,
        shape=tuple(named.parameter.shape),
        dtype=_dtype(named.parameter),
        kind="parameter" if trained else "frozen",
        group=groups.get(named.parameter, -1),
        offset=offset,
    )


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _differences(tensors: tuple[NamedParameter, ...], layout: Layout) -> list[str]:
    fits = len(tensors) == len(layout.segments) and all(
        named.name == segment.name
        and named.aliases == segment.aliases
        and tuple(named.parameter.shape) == segment.shape
        and _dtype(named.parameter) == segment.dtype
        for named, segment in zip(tensors, layout.segments, strict=True)
    )
    return [] if fits else _explained(tensors, layout)


def _explained(tensors: tuple[NamedParameter, ...], layout: Layout) -> list[str]:
    run = {segment.name: segment for segment in layout.segments}
    here = {named.name: named for named in tensors}
    lines = [f"{name}: in the run, not in this model" for name in run if name not in here]
    for name, named in here.items():
        if name not in run:
            lines.append(f"{name}: in this model, not in the run")
            continue
        pairs = (
            ("shape", tuple(named.parameter.shape), run[name].shape),
            ("dtype", _dtype(named.parameter), run[name].dtype),
            ("tied names", named.aliases, run[name].aliases),
        )
        lines += [f"{name}: {word} {ours} here, {theirs} in the run" for word, ours, theirs in pairs if ours != theirs]
    return lines or [f"order of parameters: {', '.join(here)} here, {', '.join(run)} in the run"]


# -- what this release cannot train ----------------------------------------------------------------------------------


def model_problems(model: nn.Module, optimizer: optim.Optimizer) -> list[str]:
    """Return one line a thing about the model that this release cannot train, by name; empty when there is none."""
    tensors = named_tensors(model)
    groups = group_of_parameters(optimizer)
    problems = [problem for named in tensors for problem in _tensor_problems(named)]
    problems += _buffer_problems(model)
    problems += _name_problems(tensors)
    problems += _shared_memory_problems(tensors)
    problems += _foreign_problems(tensors, optimizer)
    # numel() of an uninitialised parameter fails; it is named above, and may be meant to train.
    if not any(
        named.parameter.requires_grad
        and named.parameter in groups
        and (_uninitialised(named) or named.parameter.numel())
        for named in tensors
    ):
        problems.append(
            "the model has no trainable parameter: none needs a gradient, is held by the optimizer and has an element; "
            "set requires_grad and give model.parameters() to the optimizer"
        )
    return problems


def _uninitialised(named: NamedParameter) -> bool:
    return isinstance(named.parameter, UninitializedParameter)


def _tensor_problems(named: NamedParameter) -> Iterator[str]:
    name, tensor = named.name, named.parameter
    if _uninitialised(named):
        yield f"parameter {name} has no shape yet; run one batch through the model in model()"
        return
    if tensor.is_complex():
        yield f"parameter {name} is {_dtype(tensor)}; hold its real and imaginary parts as two float32 parameters"
    elif tensor.dtype != torch.float32:
        yield f"parameter {name} is {_dtype(tensor)}; this release trains float32 only: call model.float() in model()"
    if tensor.is_meta:
        yield f"parameter {name} is on the meta device and has no values; build the model on a real device"
    elif tensor.layout != torch.strided:
        yield f"parameter {name} is stored as {tensor.layout}; make it dense with to_dense()"
    elif any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True)):
        yield f"parameter {name} is expanded: its elements share memory; make it an own tensor with clone()"


def _buffer_problems(model: nn.Module) -> Iterator[str]:
    for name, buffer in model.named_buffers():
        path = name.rpartition(".")[0]
        owner = type(model.get_submodule(path)).__name__
        yield (
            f"buffer {normalise_name(name)} ({_dtype(buffer)}, of {owner}): buffers come with the next release; until "
            f"then use GroupNorm or LayerNorm for BatchNorm, and a parameter with requires_grad=False for a constant"
        )


def _name_problems(tensors: tuple[NamedParameter, ...]) -> Iterator[str]:
    seen: set[str] = set()
    for named in tensors:
        for name in {named.name, *named.aliases}:
            if name in seen:
                yield f"two parameters are called {name} once 'module.' and '_orig_mod.' are taken off; rename one"
            seen.add(name)


def _shared_memory_problems(tensors: tuple[NamedParameter, ...]) -> Iterator[str]:
    first: dict[tuple[torch.device, int], str] = {}
    for named in tensors:
        if _uninitialised(named) or named.parameter.layout != torch.strided or not named.parameter.numel():
            continue
        place = (named.parameter.device, named.parameter.data_ptr())
        if place[1] and place in first:
            yield (
                f"parameters {first[place]} and {named.name} share memory but are two parameters; tie them by "
                f"assigning one Parameter to both names"
            )
        first.setdefault(place, named.name)


def _foreign_problems(tensors: tuple[NamedParameter, ...], optimizer: optim.Optimizer) -> Iterator[str]:
    own = {named.parameter for named in tensors}
    for index, group in enumerate(optimizer.param_groups):
        for place, parameter in enumerate(group["params"]):
            if parameter not in own:
                yield (
                    f"the optimizer's parameter {place} of group {index}, of shape {tuple(parameter.shape)}, is not in "
                    f"the model; build the optimizer from this model's parameters"
                )
