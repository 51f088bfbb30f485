"""Tensors as bytes: codec ``fp32`` (little-endian, nothing lost), presence bitmaps, and the check for NaN and infinity.

Bits are kept: NaNs with their payloads, -0.0 and denormals come back as they went.
"""

import math
import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from driftline.errors import NotEncodable, Undecodable
from driftline.schemas.records import PayloadBytes

FP32_BYTES: Final = 4
_WIRE: Final = np.dtype("<f4")
_BLOCK: Final = 64 * 1024
"""Elements looked at in one go: the flags of a block (64 KiB) stay in the cache."""

QUICK: Final = 8 * 1024
"""Elements that `surely_finite` takes at a time: BLAS computes dot products of more than 10,000 in several threads."""


def encode_fp32(view: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """Return the elements of a float32 array of any shape, in C order, as flat little-endian bytes (uint8).

    A contiguous array on a little-endian machine is viewed, not copied: the result shares its memory.

    Raises:
        NotEncodable: the array is not float32.
    """
    if not isinstance(view, np.ndarray) or view.dtype.newbyteorder("=") != np.float32:
        raise NotEncodable(f"{getattr(view, 'dtype', type(view).__name__)}: codec fp32 takes float32 arrays only")
    return np.ascontiguousarray(view, _WIRE).reshape(-1).view(np.uint8)


def decode_fp32(payload: PayloadBytes, elements: int) -> npt.NDArray[np.float32]:
    """Return a payload as a read-only float32 array of shape (elements,), over the same memory where it can be.

    Raises:
        Undecodable: the payload's size is not that of ``elements``.
    """
    size = len(payload)
    if elements < 0 or size != elements * FP32_BYTES:
        raise Undecodable(f"{size} bytes of payload, but {elements} fp32 elements take {elements * FP32_BYTES}")
    wire = np.frombuffer(payload, _WIRE)
    array: npt.NDArray[np.float32] = wire if sys.byteorder == "little" else wire.astype(np.float32)
    array.flags.writeable = False
    return array


def is_finite(array: npt.NDArray[Any]) -> bool:
    """Say whether no element is NaN or infinite. An empty array is finite; 64 KiB of memory at any size."""
    flat = array.reshape(-1)
    return all(bool(np.isfinite(flat[at : at + _BLOCK]).all()) for at in range(0, flat.size, _BLOCK))


def pack_presence(flags: Sequence[bool]) -> bytes:
    """Return flags as bits, least significant first, ⌈n / 8⌉ bytes; the bits beyond are zero."""
    return np.packbits(np.asarray(flags, dtype=np.bool_), bitorder="little").tobytes()


def unpack_presence(bitmap: bytes, count: int) -> tuple[bool, ...]:
    """Return ``count`` flags of a bitmap.

    Raises:
        Undecodable: it has another length than ``count`` flags need, or bits set beyond them.
    """
    if count < 0 or len(bitmap) != math.ceil(count / 8):
        raise Undecodable(f"a presence bitmap of {len(bitmap)} bytes for {count} segment pieces")
    bits = int.from_bytes(bitmap, "little")
    if bits >> count:
        raise Undecodable(f"a presence bitmap with bits beyond its {count} segment pieces")
    return tuple(bit == "1" for bit in reversed(f"{bits:0{count}b}")) if count else ()


def surely_finite(tensors: Sequence[npt.NDArray[np.float32]]) -> bool:
    """Say whether all elements are certainly finite; False means that one may not be.

    A product with an infinity is infinite or NaN, also that with zero, and so is every sum that it enters, in whatever
    order it is taken. So a finite dot product proves two tensors finite at once, several times faster than looking at
    each element. Its value, which depends on the machine, is not used; large finite numbers may overflow and give a
    false alarm.

    Args:
        tensors: float32 of the same shape (elements,).
    """
    for first, second in zip(tensors[::2], [*tensors[1::2], tensors[-1]], strict=False):
        for start in range(0, first.size, QUICK):
            if not math.isfinite(np.dot(first[start : start + QUICK], second[start : start + QUICK])):
                return False
    return True
