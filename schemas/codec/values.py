"""Checks values of the primitive types before they are written; returns what the Avro writer takes for them.

Two liberties only: a whole number stands for a float where the float is exactly that number, and a subclass stands for
its base (but never a bool for an int).
"""

import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

Check: TypeAlias = Callable[[Any], Any]
"""Takes a value and returns what the Avro writer takes for it; raises `Refused`."""

_LOW, _HIGH = -(2**63), 2**63 - 1
_FLOAT32 = struct.Struct("<f")


class Refused(Exception):
    """A value that its schema does not take. ``path`` says where, from the field that is being checked inwards."""

    def __init__(self, value: object, reason: str, path: str = "") -> None:
        self.value, self.reason, self.path = value, reason, path

    def inside(self, step: str) -> "Refused":
        """Put ``step`` in front of the path."""
        self.path = step + self.path
        return self


def check_long(value: Any) -> int:
    """An int of 64 bits; no bool."""
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, int)):
        raise Refused(value, f"is a {type(value).__name__}, not an int")
    if not _LOW <= value <= _HIGH:
        raise Refused(value, "does not fit in 64 bits")
    return value


def check_double(value: Any) -> float:
    """A float, or an int that is exactly one."""
    if type(value) is float:
        return value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Refused(value, f"is a {type(value).__name__}, not a float")
    try:
        exact = float(value)
    except OverflowError:
        exact = 0.0
    if exact != value:
        raise Refused(value, "is no exact float64")
    return exact


def check_float(value: Any) -> float:
    """A finite number that float32 holds exactly."""
    number = check_double(value)
    try:
        written: float = _FLOAT32.unpack(_FLOAT32.pack(number))[0]
    except OverflowError:
        raise Refused(value, "is beyond float32") from None
    if written != number or number - number != 0.0:
        raise Refused(value, "is no finite float32; round it before it is decided on")
    return number


def check_boolean(value: Any) -> bool:
    """A bool, nothing else."""
    if type(value) is not bool:
        raise Refused(value, f"is a {type(value).__name__}, not a bool")
    return value


def check_string(value: Any) -> str:
    """Text: no half of a surrogate pair."""
    if not isinstance(value, str):
        raise Refused(value, f"is a {type(value).__name__}, not a str")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Refused(value, "holds half of a surrogate pair, which is no text") from None
    return value


def check_bytes(value: Any) -> bytes:
    """Bytes, no view of any."""
    if not isinstance(value, bytes):
        raise Refused(value, f"is a {type(value).__name__}, not bytes")
    return value


PRIMITIVES: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "long": check_long,
        "double": check_double,
        "float": check_float,
        "boolean": check_boolean,
        "string": check_string,
        "bytes": check_bytes,
    }
)
