"""Checks a record before it is written, and turns it into the plain values that the Avro writer takes.

Strict, because whatever is written stays in the log for ever. Maps are written in the order of their keys, so that
equal records have equal bytes.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from reprlib import Repr
from typing import Any

import numpy as np
import numpy.typing as npt

from driftline.errors import NotEncodable
from driftline.schemas.codec.shapes import Shape
from driftline.schemas.codec.values import PRIMITIVES, Check, Refused, check_string

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 60


def record_check(shape: Shape) -> Callable[[object], dict[str, Any]]:
    """Return the check of a whole record, without its payload if it has one.

    The check raises `NotEncodable`, which names record, field and value.
    """
    check, name = _record(shape), shape.record.__name__ if shape.record else ""

    def checked(record: object) -> dict[str, Any]:
        try:
            plain: dict[str, Any] = check(record)
        except Refused as refused:
            raise _not_encodable(name + refused.path, refused.value, refused.reason) from None
        return plain

    return checked


def payload_view(record: str, payload: object) -> npt.NDArray[np.uint8]:
    """Return a payload as a flat uint8 view, nothing copied.

    Raises:
        NotEncodable: it is no bytes, and no contiguous view of single bytes.
    """
    reason = "is no bytes, and no contiguous one-dimensional view of uint8"
    if isinstance(payload, np.ndarray):
        if payload.dtype == np.uint8 and payload.ndim == 1 and payload.flags.c_contiguous:
            return payload
        reason = f"is an array of {payload.dtype} with shape {payload.shape}; view it as contiguous, flat uint8"
    elif isinstance(payload, bytes | memoryview):
        view = memoryview(payload)
        if view.format == "B" and view.ndim == 1 and view.c_contiguous:
            return np.frombuffer(view, np.uint8)
    raise _not_encodable(f"{record}.payload", payload, reason)


def _not_encodable(path: str, value: object, reason: str) -> NotEncodable:
    shown = " ".join(_SHORT.repr(value).split())  # an array's repr has line breaks
    return NotEncodable(f"{path}: {shown} {reason}")


def _check(shape: Shape) -> Check:
    match shape.kind:
        case "record":
            return _record(shape)
        case "array":
            return _array(shape)
        case "map":
            return _map(shape)
        case "fixed":
            return _fixed(shape.size)
        case "enum":
            return _enum(shape.symbols)
        case kind:
            return PRIMITIVES[kind]


def _record(shape: Shape) -> Check:
    record = shape.record
    fields = [(name, inner) for name, inner in shape.fields if inner.kind != "payload"]
    names, checks = [name for name, _ in fields], [_check(inner) for _, inner in fields]
    getter = attrgetter(*names)

    def check(value: Any) -> dict[str, Any]:
        if type(value) is not record:
            raise Refused(value, f"is no {record.__name__ if record else 'record'}")
        plain = {}
        name = ""
        try:
            for name, check, field in zip(names, checks, getter(value), strict=True):
                plain[name] = check(field)
        except Refused as refused:
            raise refused.inside(f".{name}") from None
        return plain

    return check


def _array(shape: Shape) -> Check:
    assert shape.items is not None  # noqa: S101 - bind() gives every array its items
    check_item = _check(shape.items)

    def check(value: Any) -> list[Any]:
        if not isinstance(value, tuple):
            raise Refused(value, "is no tuple")
        plain: list[Any] = []
        try:
            for item in value:
                plain.append(check_item(item))  # noqa: PERF401 - its length says which item was refused
        except Refused as refused:
            raise refused.inside(f"[{len(plain)}]") from None
        return plain

    return check


def _map(shape: Shape) -> Check:
    assert shape.items is not None  # noqa: S101 - bind() gives every map its values
    check_item = _check(shape.items)

    def check(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise Refused(value, "is no mapping")
        for key in value:
            check_string(key)
        plain, key = {}, ""
        try:
            for key in sorted(value):
                plain[key] = check_item(value[key])
        except Refused as refused:
            raise refused.inside(f"[{key!r}]") from None
        return plain

    return check


def _fixed(size: int) -> Check:
    def check(value: Any) -> bytes:
        if not isinstance(value, bytes):
            raise Refused(value, "is no bytes")
        if len(value) != size:
            raise Refused(value, f"has {len(value)} bytes, not {size}")
        return value

    return check


def _enum(symbols: tuple[str, ...]) -> Check:
    known = frozenset(symbols)

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in known:
            raise Refused(value, f"is none of {', '.join(symbols)}")
        return value

    return check
