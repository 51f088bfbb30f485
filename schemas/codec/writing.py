"""Checks a record and writes its Avro binary encoding, in one pass.

Strict, because what is written stays in the log for ever. Maps are written in the order of their keys, and arrays and
maps as one block, so that equal records have equal bytes.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from reprlib import Repr
from typing import Any

import numpy as np
import numpy.typing as npt

from driftline.errors import NotEncodable
from driftline.schemas.codec.primitives import WRITERS, Refused, Write, write_long, write_string
from driftline.schemas.codec.shapes import Shape

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 60


def record_writer(shape: Shape) -> Callable[[bytearray, object], None]:
    """Return the writer of a whole record: it appends the encoding, of a payload only its length.

    The writer raises `NotEncodable`, which names record, field and value.
    """
    write, name = _record(shape), shape.record.__name__ if shape.record else ""

    def writer(out: bytearray, record: object) -> None:
        try:
            write(out, record)
        except Refused as refused:
            raise _not_encodable(name + refused.path, refused.value, refused.reason) from None

    return writer


def payload_view(payload: object) -> npt.NDArray[np.uint8]:
    """Return a payload as a flat uint8 view, nothing copied.

    Raises:
        Refused: it is neither bytes nor a contiguous view of single bytes.
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
    raise Refused(payload, reason)


def _not_encodable(path: str, value: object, reason: str) -> NotEncodable:
    shown = " ".join(_SHORT.repr(value).split())  # an array's repr has line breaks
    return NotEncodable(f"{path}: {shown} {reason}")


def _writer(shape: Shape) -> Write:
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
            return _LEAVES[kind]


def _record(shape: Shape) -> Write:
    record = shape.record
    fields = [(name, attrgetter(name), _writer(inner)) for name, inner in shape.fields]

    def write(out: bytearray, value: Any) -> None:
        if type(value) is not record:
            raise Refused(value, f"is no {record.__name__ if record else 'record'}")
        name = ""
        try:
            for name, get, write_field in fields:  # noqa: B007 - the handler names the field
                write_field(out, get(value))
        except Refused as refused:
            raise refused.inside(f".{name}") from None

    return write


def _array(shape: Shape) -> Write:
    assert shape.items is not None  # noqa: S101 - bind() gives every array its items
    write_item = _writer(shape.items)

    def write(out: bytearray, value: Any) -> None:
        if not isinstance(value, tuple):
            raise Refused(value, "is no tuple")
        if value:
            write_long(out, len(value))
        index = 0
        try:
            for index, item in enumerate(value):  # noqa: B007 - the handler names the item
                write_item(out, item)
        except Refused as refused:
            raise refused.inside(f"[{index}]") from None
        out.append(0)

    return write


def _map(shape: Shape) -> Write:
    assert shape.items is not None  # noqa: S101 - bind() gives every map its values
    write_item = _writer(shape.items)

    def write(out: bytearray, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise Refused(value, "is no mapping")
        for key in value:
            if not isinstance(key, str):  # before they are sorted
                raise Refused(key, f"is a {type(key).__name__}, not a str")
        if value:
            write_long(out, len(value))
        for key in sorted(value):
            write_string(out, key)
            try:
                write_item(out, value[key])
            except Refused as refused:
                raise refused.inside(f"[{key!r}]") from None
        out.append(0)

    return write


def _fixed(size: int) -> Write:
    def write(out: bytearray, value: Any) -> None:
        if not isinstance(value, bytes):
            raise Refused(value, "is no bytes")
        if len(value) != size:
            raise Refused(value, f"has {len(value)} bytes, not {size}")
        out += value

    return write


def _enum(symbols: tuple[str, ...]) -> Write:
    places = {symbol: index for index, symbol in enumerate(symbols)}

    def write(out: bytearray, value: Any) -> None:
        if not isinstance(value, str) or value not in places:
            raise Refused(value, f"is none of {', '.join(symbols)}")
        write_long(out, places[value])

    return write


def _payload_length(out: bytearray, payload: object) -> None:
    write_long(out, payload_view(payload).size)


_LEAVES: Mapping[str, Write] = {**WRITERS, "payload": _payload_length}
