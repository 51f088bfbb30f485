"""Avro's primitive types, read and written.

A read function takes all bytes and a position, and returns the value with the position behind it. The bytes may declare
anything: it raises `Unreadable` for a value that cannot be and IndexError where the bytes end, and allocates nothing of
a declared size before that many bytes are known to be there.

A write function appends the encoding of a value to a buffer, and raises `Refused` for a value that the schema does not
take. A whole number is taken for a float that equals it; a subclass is taken for its base, except a bool for an int.
"""

import math
from collections.abc import Callable, Mapping
from struct import Struct
from types import MappingProxyType
from typing import Any, Final, Self, TypeAlias

Read: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
Write: TypeAlias = Callable[[bytearray, Any], None]

_LOW, _HIGH = -(2**63), 2**63 - 1
_LAST_SHIFT: Final = 63
_MORE: Final = 0x80
_DOUBLE, _FLOAT = Struct("<d"), Struct("<f")


class _Misfit(Exception):
    """``path`` says where, from the record's field inwards."""

    path = ""

    def inside(self, step: str) -> Self:
        """Put ``step`` in front of the path."""
        self.path = step + self.path
        return self


class Unreadable(_Misfit):
    """Bytes that are no value of their type."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


class Refused(_Misfit):
    """A value that its schema does not take."""

    def __init__(self, value: object, reason: str) -> None:
        self.value, self.reason = value, reason


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


def write_long(out: bytearray, value: Any) -> None:
    """An int of 64 bits, no bool, as a zig-zag varint."""
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, int)):
        raise Refused(value, f"is a {type(value).__name__}, not an int")
    if not _LOW <= value <= _HIGH:
        raise Refused(value, "does not fit in 64 bits")
    rest = value << 1 if value >= 0 else ~(value << 1)
    while rest >= _MORE:
        out.append(rest & 0x7F | _MORE)
        rest >>= 7
    out.append(rest)


def write_double(out: bytearray, value: Any) -> None:
    """A float, or an int that is exactly one."""
    out += _DOUBLE.pack(_exact(value))


def write_float(out: bytearray, value: Any) -> None:
    """A finite number that float32 holds exactly."""
    number = _exact(value)
    try:
        packed = _FLOAT.pack(number)
    except OverflowError:
        raise Refused(value, "is beyond float32") from None
    if _FLOAT.unpack(packed)[0] != number or number - number != 0.0:
        raise Refused(value, "is no finite float32; round it before it is decided on")
    out += packed


def _exact(value: Any) -> float:
    if isinstance(value, float):
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise Refused(value, f"is a {type(value).__name__}, not a float")
    try:
        exact = float(value)
    except OverflowError:
        exact = 0.0
    if exact != value:
        raise Refused(value, "is no exact float64")
    return exact


def write_boolean(out: bytearray, value: Any) -> None:
    """A bool, nothing else."""
    if type(value) is not bool:
        raise Refused(value, f"is a {type(value).__name__}, not a bool")
    out.append(value)


def write_string(out: bytearray, value: Any) -> None:
    """Text in UTF-8: no half of a surrogate pair."""
    if not isinstance(value, str):
        raise Refused(value, f"is a {type(value).__name__}, not a str")
    try:
        encoded = value.encode()
    except UnicodeEncodeError:
        raise Refused(value, "holds half of a surrogate pair, which is no text") from None
    write_long(out, len(encoded))
    out += encoded


def write_bytes(out: bytearray, value: Any) -> None:
    """Bytes, no view of any."""
    if not isinstance(value, bytes):
        raise Refused(value, f"is a {type(value).__name__}, not bytes")
    write_long(out, len(value))
    out += value


READERS: Final[Mapping[str, Read]] = MappingProxyType(
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
WRITERS: Final[Mapping[str, Write]] = MappingProxyType(
    {
        "long": write_long,
        "double": write_double,
        "float": write_float,
        "boolean": write_boolean,
        "string": write_string,
        "bytes": write_bytes,
    }
)
