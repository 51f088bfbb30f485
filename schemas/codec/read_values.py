"""Reads the primitive types of Avro from bytes that may declare anything.

Each function takes all bytes and a position, and returns the value there with the position behind it. It raises
`Unreadable` for what cannot be, and IndexError where the bytes end; nothing is made of a declared size before that
many bytes are known to be there.
"""

import math
from collections.abc import Callable, Mapping
from struct import Struct
from types import MappingProxyType
from typing import Any, Final, TypeAlias

Read: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""Reads one value: (all bytes, position) to (value, position behind it)."""

_LAST_SHIFT: Final = 63
_MORE: Final = 0x80
_DOUBLE, _FLOAT = Struct("<d"), Struct("<f")


class Unreadable(Exception):
    """Bytes that are no value of their type. ``path`` says where, from the field that is being read inwards."""

    def __init__(self, reason: str, path: str = "") -> None:
        self.reason, self.path = reason, path

    def inside(self, step: str) -> "Unreadable":
        """Put ``step`` in front of the path."""
        self.path = step + self.path
        return self


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """A zig-zag varint of at most 64 bits."""
    byte = data[at]
    at += 1
    if byte < _MORE:
        return (byte >> 1) ^ -(byte & 1), at
    value, shift = byte & 0x7F, 7
    while byte >= _MORE:
        if shift > _LAST_SHIFT:
            raise Unreadable("an integer of more than ten bytes")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    if value >> 64:
        raise Unreadable("an integer of more than 64 bits")
    return (value >> 1) ^ -(value & 1), at


def read_length(data: bytes, at: int) -> tuple[int, int]:
    """A size in bytes that are all there."""
    size, at = read_long(data, at)
    if size < 0:
        raise Unreadable(f"declares a negative size of {size} bytes")
    if size > len(data) - at:
        raise Unreadable(f"declares {size} bytes, but only {len(data) - at} are left")
    return size, at


def read_double(data: bytes, at: int) -> tuple[float, int]:
    """Any float64, NaN and infinities included."""
    end = at + 8
    if end > len(data):
        raise IndexError
    return _DOUBLE.unpack_from(data, at)[0], end


def read_float(data: bytes, at: int) -> tuple[float, int]:
    """A finite float32."""
    end = at + 4
    if end > len(data):
        raise IndexError
    value = _FLOAT.unpack_from(data, at)[0]
    if not math.isfinite(value):
        raise Unreadable(f"{value} is no finite float32")
    return value, end


def read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    """Exactly 0 or 1."""
    byte = data[at]
    if byte > 1:
        raise Unreadable(f"a boolean of {byte}")
    return byte == 1, at + 1


def read_string(data: bytes, at: int) -> tuple[str, int]:
    """UTF-8."""
    size, at = read_length(data, at)
    end = at + size
    try:
        return data[at:end].decode(), end
    except UnicodeDecodeError:
        raise Unreadable("a string that is no UTF-8") from None


def read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """A copy of the bytes."""
    size, at = read_length(data, at)
    end = at + size
    return data[at:end], end


def read_payload(data: bytes, at: int) -> tuple[memoryview, int]:
    """A read-only view of the bytes, nothing copied."""
    size, at = read_length(data, at)
    end = at + size
    return memoryview(data)[at:end], end


PRIMITIVES: Final[Mapping[str, Read]] = MappingProxyType(
    {
        "long": read_long,
        "double": read_double,
        "float": read_float,
        "boolean": read_boolean,
        "string": read_string,
        "bytes": read_bytes,
        "payload": read_payload,
    }
)
