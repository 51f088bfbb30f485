"""The tensors of a torch model that are its state: parameters and buffers, each once, with all its names."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from driftline.schemas.model.layout import normalise_name


@dataclass(frozen=True, slots=True)
class NamedParameter:
    """One parameter of a model: its first name and the others, normalised, and the parameter itself."""

    name: str
    aliases: tuple[str, ...]
    parameter: nn.Parameter

    @property
    def tensor(self) -> torch.Tensor:
        """The parameter."""
        return self.parameter


@dataclass(frozen=True, slots=True)
class NamedBuffer:
    """One persistent buffer of a model: its first name and the others, normalised, the tensor, and whose it is."""

    name: str
    aliases: tuple[str, ...]
    tensor: torch.Tensor
    owner: str


def named_tensors(model: nn.Module) -> tuple[NamedParameter, ...]:
    """Return every parameter once, with all its names, in the order of ``named_parameters()``."""
    names: dict[nn.Parameter, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(normalise_name(name))
    return tuple(NamedParameter(own[0], tuple(own[1:]), parameter) for parameter, own in names.items())


def named_buffers(model: nn.Module) -> tuple[NamedBuffer, ...]:
    """Return every buffer that a ``state_dict()`` would hold once, in the order of ``named_buffers()``.

    What a module registers with ``persistent=False`` it makes again by itself; that is no part of the model's state.
    """
    found: dict[torch.Tensor, tuple[str, list[str]]] = {}
    for owner, name, buffer in _persistent(model):
        found.setdefault(buffer, (owner, []))[1].append(normalise_name(name))
    return tuple(NamedBuffer(own[0], tuple(own[1:]), buffer, owner) for buffer, (owner, own) in found.items())


def _persistent(model: nn.Module) -> Iterator[tuple[str, str, torch.Tensor]]:
    for path, module in model.named_modules(remove_duplicate=False):
        # torch has no public name for it; state_dict() itself goes by this set.
        passing = module._non_persistent_buffers_set  # noqa: SLF001
        for own, buffer in module.named_buffers(recurse=False, remove_duplicate=False):
            if own not in passing:
                yield type(module).__name__, f"{path}.{own}" if path else own, buffer


def dtype_name(tensor: torch.Tensor) -> str:
    """Return a dtype as layouts write it: ``bfloat16``."""
    return str(tensor.dtype).removeprefix("torch.")
