"""What this release cannot train of a model: every problem, by name and with the way out."""

from collections.abc import Iterator, Sequence

import torch
from torch import nn, optim
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from driftline.schemas.model.dtypes import BUFFER_BYTES, PARAMETER_DTYPES
from driftline.training.model.rule import group_of_parameters
from driftline.training.model.tensors import NamedBuffer, NamedParameter, dtype_name, named_buffers, named_tensors

_SHOWN = 3
"""Names in a message about many."""


def model_problems(model: nn.Module, optimizer: optim.Optimizer) -> list[str]:
    """Return one line a thing about the model that this release cannot train, by name; empty when there is none."""
    parameters, buffers = named_tensors(model), named_buffers(model)
    groups = group_of_parameters(optimizer)
    problems = [problem for named in parameters for problem in _parameter_problems(named)]
    problems += _dtype_problems(parameters)
    problems += [problem for named in buffers for problem in _buffer_problems(named)]
    problems += _extra_state_problems(model)
    problems += _shared_memory_problems((*parameters, *buffers))
    problems += _foreign_problems(parameters, optimizer)
    # numel() of an uninitialised parameter fails; it is named above, and may be meant to train.
    if not any(
        named.parameter.requires_grad
        and named.parameter in groups
        and (_is_lazy(named.parameter) or named.parameter.numel())
        for named in parameters
    ):
        problems.append(
            "the model has no trainable parameter: none needs a gradient, is held by the optimizer and has an element; "
            "set requires_grad and give model.parameters() to the optimizer"
        )
    return problems


def _is_lazy(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, UninitializedParameter | UninitializedBuffer)


def _parameter_problems(named: NamedParameter) -> Iterator[str]:
    name, tensor = f"parameter {named.name}", named.parameter
    if _is_lazy(tensor):
        yield f"{name} has no shape yet; run one batch through the model in model()"
        return
    if hasattr(tensor, "device_mesh"):
        yield f"{name} is a {type(tensor).__name__}, spread over devices; a worker holds the whole model on one of them"
        return
    if tensor.is_complex():
        yield f"{name} is {dtype_name(tensor)}; hold its real and imaginary parts as two float32 parameters"
    yield from _storage_problems(name, tensor)


def _dtype_problems(parameters: Sequence[NamedParameter]) -> Iterator[str]:
    """Yield one line a dtype: a model is mostly of one."""
    names: dict[str, list[str]] = {}
    for named in parameters:
        dtype = dtype_name(named.tensor)
        if dtype not in PARAMETER_DTYPES and not named.tensor.is_complex() and not _is_lazy(named.tensor):
            names.setdefault(dtype, []).append(named.name)
    for dtype, own in names.items():
        more = f" and {len(own) - _SHOWN} more" if len(own) > _SHOWN else ""
        whose = f"{', '.join(own[:_SHOWN])}{more}: parameters are" if own[1:] else f"parameter {own[0]} is"
        yield (
            f"{whose} {dtype}, and trained are {', '.join(PARAMETER_DTYPES)}; call model.float() before the optimizer "
            f"is made"
        )


def _buffer_problems(named: NamedBuffer) -> Iterator[str]:
    name, tensor = f"buffer {named.name} (of {named.owner})", named.tensor
    if _is_lazy(tensor):
        yield f"{name} has no shape yet; run one batch through the model in model()"
        return
    if dtype_name(tensor) not in BUFFER_BYTES:
        yield (
            f"{name} is {dtype_name(tensor)}, which cannot be sent; register it with persistent=False if the module "
            f"makes it again by itself, or hold it as one of {', '.join(BUFFER_BYTES)}"
        )
    yield from _storage_problems(name, tensor)


def _storage_problems(name: str, tensor: torch.Tensor) -> Iterator[str]:
    if tensor.is_meta:
        yield f"{name} is on the meta device and has no values; build the model on a real device"
    elif tensor.layout != torch.strided:
        yield f"{name} is stored as {tensor.layout}; make it dense with to_dense()"
    elif any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True)):
        yield f"{name} is expanded: its elements share memory; make it an own tensor with clone()"


def _extra_state_problems(model: nn.Module) -> Iterator[str]:
    for path, module in model.named_modules():
        if type(module).get_extra_state is not nn.Module.get_extra_state:
            yield (
                f"module {path or type(module).__name__} has extra state (get_extra_state), which a run does not "
                f"carry, so that load_state_dict() would lack it; hold it in a buffer"
            )


def _shared_memory_problems(tensors: tuple[NamedParameter | NamedBuffer, ...]) -> Iterator[str]:
    first: dict[tuple[torch.device, int], NamedParameter | NamedBuffer] = {}
    for named in tensors:
        if _is_lazy(named.tensor) or named.tensor.layout != torch.strided or not named.tensor.numel():
            continue
        place = (named.tensor.device, named.tensor.data_ptr())
        if place[1] and place in first:
            yield _shared(first[place], named)
        first.setdefault(place, named)


def _shared(one: NamedParameter | NamedBuffer, other: NamedParameter | NamedBuffer) -> str:
    if isinstance(one, NamedParameter) and isinstance(other, NamedParameter):
        return (
            f"parameters {one.name} and {other.name} share memory but are two parameters; tie them by assigning one "
            f"Parameter to both names"
        )
    return f"buffer {other.name} shares the memory of {one.name}; make it an own tensor with clone()"


def _foreign_problems(tensors: tuple[NamedParameter, ...], optimizer: optim.Optimizer) -> Iterator[str]:
    own = {named.tensor for named in tensors}
    for index, group in enumerate(optimizer.param_groups):
        for place, parameter in enumerate(group["params"]):
            if parameter not in own:
                yield (
                    f"the optimizer's parameter {place} of group {index}, of shape {tuple(parameter.shape)}, is not in "
                    f"the model; build the optimizer from this model's parameters"
                )
