"""The tensors of a torch model that are its state: parameters and buffers, each once, with all its names.

A buffer is bytes in the flat vector, copied in either direction, and never numbers: the bytes of its elements in C
order of the logical shape, little-endian, filled up with zeros to whole words of four bytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from driftline.training.model.wrappers import names_of

Words = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class NamedParameter:
    """One parameter of a model: its first name and the others, without wrappers, and the parameter itself."""

    name: str
    aliases: tuple[str, ...]
    parameter: nn.Parameter

    @property
    def tensor(self) -> torch.Tensor:
        """The parameter."""
        return self.parameter


@dataclass(frozen=True, slots=True)
class NamedBuffer:
    """One persistent buffer of a model: its names without wrappers, the first apart, the tensor, and whose it is."""

    name: str
    aliases: tuple[str, ...]
    tensor: torch.Tensor
    owner: str


def named_tensors(model: nn.Module) -> tuple[NamedParameter, ...]:
    """Return every parameter once, with all its names, in the order of ``named_parameters()``."""
    plain, names = names_of(model), dict[nn.Parameter, list[str]]()
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(plain(name))
    return tuple(NamedParameter(own[0], tuple(own[1:]), parameter) for parameter, own in names.items())


def named_buffers(model: nn.Module) -> tuple[NamedBuffer, ...]:
    """Return every buffer that a ``state_dict()`` would hold once, in the order of ``named_buffers()``.

    What a module registers with ``persistent=False`` it makes again by itself; that is no part of the model's state.
    """
    plain, found = names_of(model), dict[torch.Tensor, tuple[str, list[str]]]()
    for owner, name, buffer in _persistent(model):
        found.setdefault(buffer, (owner, []))[1].append(plain(name))
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


def read_tensor(tensor: torch.Tensor, words: Words) -> None:
    """Copy a tensor's bytes into its words.

    Args:
        tensor: of any dtype of `driftline.schemas.model.dtypes.BUFFER_BYTES`, on any device, with any strides.
        words: float32, as many as the segment has; what the bytes leave over becomes zero.
    """
    plain = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")  # whatever the script's default device is
    plain.copy_(tensor.detach())
    raw = _swapped(_bytes_of(plain), tensor.dtype)
    filled = np.zeros(words.size, "<f4")
    filled.view(np.uint8)[: raw.size] = raw
    words[:] = filled


def write_tensor(words: Words, tensor: torch.Tensor) -> None:
    """Copy words into a tensor, in place: it keeps its memory, strides and device. Nothing refers to ``words`` then."""
    tensor.copy_(tensor_of(words, tensor.dtype, tuple(tensor.shape)))


def tensor_of(words: Words, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    """Return words as a tensor with memory of its own."""
    plain = torch.empty(shape, dtype=dtype, device="cpu")
    own = _bytes_of(plain)
    raw = np.ascontiguousarray(words, "<f4").view(np.uint8)
    own[:] = _swapped(raw[: own.size], dtype)
    return plain


def _bytes_of(plain: torch.Tensor) -> npt.NDArray[np.uint8]:
    found: npt.NDArray[np.uint8] = plain.reshape(-1).view(torch.uint8).numpy()
    return found


def _swapped(raw: npt.NDArray[np.uint8], dtype: torch.dtype) -> npt.NDArray[np.uint8]:
    """Turn this machine's order of bytes into little-endian, or back: nothing to do on a little-endian one."""
    width = dtype.itemsize // (2 if dtype.is_complex else 1)
    return raw.view(f"<u{width}").astype(f"=u{width}", copy=False).view(np.uint8)
