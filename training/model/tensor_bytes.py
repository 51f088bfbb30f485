"""Buffers of a torch model as words of the flat vector: bytes, copied in either direction, and never numbers.

The bytes are those of the elements in C order of the logical shape, little-endian, filled up with zeros to whole words.
"""

import numpy as np
import numpy.typing as npt
import torch

Words = npt.NDArray[np.float32]


def read_tensor(tensor: torch.Tensor, words: Words) -> None:
    """Copy a tensor's bytes into its words.

    Args:
        tensor: of any dtype of `driftline.schemas.model.dtypes.BUFFER_BYTES`, on any device, with any strides.
        words: float32, as many as the segment has; what the bytes leave over becomes zero.
    """
    plain = torch.empty(tensor.shape, dtype=tensor.dtype)
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
    plain = torch.empty(shape, dtype=dtype)
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
