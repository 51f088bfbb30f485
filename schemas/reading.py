"""Reads the Avro binary encoding of a record, trusting nothing that it declares.

Bytes from a log may be anything. A lenient reader takes a negative length for "all that is left", a negative enum
index for "from the end", and a declared count for memory to reserve; this one checks each against the bytes that are
there, before anything of that size is made, and gives exactly the declared Python types without a detour over dicts.

Avro 1.12, "Binary Encoding": integers are zig-zag varints, strings and bytes have their length in front, arrays and
maps come in counted blocks; a negative count is followed by the block's size in bytes.
"""

import math
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, TypeAlias

from driftline.errors import Undecodable
from driftline.schemas.shapes import Shape

Read: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""Takes all bytes and a position; returns the value there and the position behind it.

Raises `_Unreadable`, or IndexError where the bytes end.
"""

_LAST_SHIFT = 63
_MORE = 0x80
_DOUBLE, _FLOAT = Struct("<d"), Struct("<f")


class _Unreadable(Exception):
    def __init__(self, reason: str, path: str = "") -> None:
        self.reason, self.path = reason, path

    def inside(self, step: str) -> "_Unreadable":
        self.path = step + self.path
        return self


def record_reader(shape: Shape) -> Callable[[bytes, int], Any]:
    """Return the reader of a whole record from a position to the very end of the bytes.

    A payload is a read-only memoryview over the same bytes. The reader raises `Undecodable`, which names the field.
    """
    read, name = _record(shape), shape.record.__name__ if shape.record else ""

    def reader(data: bytes, at: int) -> Any:
        try:
            record, end = read(data, at)
        except _Unreadable as broken:
            raise Undecodable(f"{name}{broken.path}: {broken.reason}") from None
        if end != len(data):
            raise Undecodable(f"{name}: {len(data) - end} bytes too many behind the record")
        return record

    return reader


def _reader(shape: Shape) -> Read:
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
            return _SIMPLE[kind]


def _record(shape: Shape) -> Read:
    make = shape.record
    assert make is not None  # noqa: S101 - bind() gives every record its class
    fields = [(name, _reader(inner)) for name, inner in shape.fields]

    def read(data: bytes, at: int) -> tuple[Any, int]:
        values = {}
        name = ""
        try:
            for name, read_field in fields:
                values[name], at = read_field(data, at)
        except _Unreadable as broken:
            raise broken.inside(f".{name}") from None
        except IndexError:
            raise _Unreadable("the bytes end in the middle of it", f".{name}") from None
        return make(**values), at

    return read


def _array(shape: Shape) -> Read:
    assert shape.items is not None  # noqa: S101 - bind() gives every array its items
    read_item, smallest = _reader(shape.items), shape.items.smallest

    def read(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
        items: list[Any] = []
        count, end, at = _block(data, at, smallest)
        while count:
            for _ in range(count):
                item, at = read_item(data, at)
                items.append(item)
            _check_block_end(at, end)
            count, end, at = _block(data, at, smallest)
        return tuple(items), at

    return read


def _map(shape: Shape) -> Read:
    assert shape.items is not None  # noqa: S101 - bind() gives every map its values
    read_item, smallest = _reader(shape.items), 1 + shape.items.smallest

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        items: dict[str, Any] = {}
        count, end, at = _block(data, at, smallest)
        while count:
            for _ in range(count):
                key, at = _string(data, at)
                if key in items:
                    raise _Unreadable(f"the key {key!r} comes twice")
                items[key], at = read_item(data, at)
            _check_block_end(at, end)
            count, end, at = _block(data, at, smallest)
        return items, at

    return read


def _block(data: bytes, at: int, smallest: int) -> tuple[int, int | None, int]:
    """Read a block's head: how many items follow, where the block says that it ends (if it does), and a position."""
    count, at = _long(data, at)
    end = None
    if count < 0:
        count = -count
        size, at = _length(data, at)
        end = at + size
    if count * smallest > len(data) - at:
        raise _Unreadable(f"declares {count} items, but only {len(data) - at} bytes are left")
    return count, end, at


def _check_block_end(at: int, end: int | None) -> None:
    if end is not None and at != end:
        raise _Unreadable("a block of items has another size than it declares")


def _fixed(size: int) -> Read:
    def read(data: bytes, at: int) -> tuple[bytes, int]:
        end = at + size
        if end > len(data):
            raise IndexError
        return data[at:end], end

    return read


def _enum(symbols: tuple[str, ...]) -> Read:
    def read(data: bytes, at: int) -> tuple[str, int]:
        index, at = _long(data, at)
        if not 0 <= index < len(symbols):
            raise _Unreadable(f"symbol {index} of an enum with {len(symbols)}")
        return symbols[index], at

    return read


def _long(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    if byte < _MORE:
        return (byte >> 1) ^ -(byte & 1), at
    value, shift = byte & 0x7F, 7
    while byte >= _MORE:
        if shift > _LAST_SHIFT:
            raise _Unreadable("an integer of more than ten bytes")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    if value >> 64:
        raise _Unreadable("an integer of more than 64 bits")
    return (value >> 1) ^ -(value & 1), at


def _length(data: bytes, at: int) -> tuple[int, int]:
    size, at = _long(data, at)
    if size < 0:
        raise _Unreadable(f"declares a negative size of {size} bytes")
    if size > len(data) - at:
        raise _Unreadable(f"declares {size} bytes, but only {len(data) - at} are left")
    return size, at


def _double(data: bytes, at: int) -> tuple[float, int]:
    end = at + 8
    if end > len(data):
        raise IndexError
    return _DOUBLE.unpack_from(data, at)[0], end


def _float(data: bytes, at: int) -> tuple[float, int]:
    end = at + 4
    if end > len(data):
        raise IndexError
    value = _FLOAT.unpack_from(data, at)[0]
    if not math.isfinite(value):
        raise _Unreadable(f"{value} is no finite float32")
    return value, end


def _boolean(data: bytes, at: int) -> tuple[bool, int]:
    byte = data[at]
    if byte > 1:
        raise _Unreadable(f"a boolean of {byte}")
    return byte == 1, at + 1


def _string(data: bytes, at: int) -> tuple[str, int]:
    size, at = _length(data, at)
    end = at + size
    try:
        return data[at:end].decode(), end
    except UnicodeDecodeError:
        raise _Unreadable("a string that is no UTF-8") from None


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _length(data, at)
    end = at + size
    return data[at:end], end


def _payload(data: bytes, at: int) -> tuple[memoryview, int]:
    size, at = _length(data, at)
    end = at + size
    return memoryview(data)[at:end], end


_SIMPLE: Mapping[str, Read] = {
    "long": _long,
    "double": _double,
    "float": _float,
    "boolean": _boolean,
    "string": _string,
    "bytes": _bytes,
    "payload": _payload,
}
