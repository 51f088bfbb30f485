"""Checks values of Avro's primitive types and appends their bytes.

Two liberties only: a whole number stands for a float where the float is exactly that number, and a subclass stands for
its base (but never a bool for an int).
"""

import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

Write: TypeAlias = Callable[[bytearray, Any], None]
"""Appends the encoding of a value; raises `Refused` for a value that its schema does not take."""

_LOW, _HIGH = -(2**63), 2**63 - 1
_MORE: Final = 0x80
_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")


class Refused(Exception):
    """A value that its schema does not take. ``path`` says where, from the field that is being written inwards."""

    def __init__(self, value: object, reason: str, path: str = "") -> None:
        self.value, self.reason, self.path = value, reason, path

    def inside(self, step: str) -> "Refused":
        """Put ``step`` in front of the path."""
        self.path = step + self.path
        return self


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


PRIMITIVES: Final[Mapping[str, Write]] = MappingProxyType(
    {
        "long": write_long,
        "double": write_double,
        "float": write_float,
        "boolean": write_boolean,
        "string": write_string,
        "bytes": write_bytes,
    }
)
