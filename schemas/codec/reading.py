"""Reads the Avro binary encoding of a record, trusting nothing that it declares.

Bytes from a log may be anything. A lenient reader takes a negative length for "all that is left", a negative enum
index for "from the end", and a declared count for memory to reserve; this one checks each against the bytes that are
there, before anything of that size is made, and gives exactly the declared Python types without a detour over dicts.

Avro 1.12, "Binary Encoding": integers are zig-zag varints, strings and bytes have their length in front, arrays and
maps come in counted blocks; a negative count is followed by the block's size in bytes.
"""

from collections.abc import Callable
from typing import Any

from driftline.errors import Undecodable
from driftline.schemas.codec.primitives import READERS, Read, Unreadable, read_length, read_long, read_string
from driftline.schemas.codec.shapes import Shape

_SHOWN = 40
"""Characters of a key that a reason shows; the key itself may have any length."""


def record_reader(shape: Shape) -> Callable[[bytes, int], Any]:
    """Return the reader of a whole record from a position to the very end of the bytes.

    A payload is a read-only memoryview over the same bytes. The reader raises `Undecodable`, which names the field.
    """
    read, name = _record(shape), shape.record.__name__ if shape.record else ""

    def reader(data: bytes, at: int) -> Any:
        try:
            record, end = read(data, at)
        except Unreadable as broken:
            raise Undecodable(f"{name}{broken.path}: {broken.reason}") from None
        if end != len(data):
            raise Undecodable(f"{name}: {len(data) - end} bytes too many after the record")
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
            return READERS[kind]


def _record(shape: Shape) -> Read:
    make = shape.record
    assert make is not None  # noqa: S101 - bind() gives every record its class
    # The slots' own setters: a frozen dataclass's __init__ takes three times as long and would do nothing else.
    fields = [(name, getattr(make, name).__set__, _reader(inner)) for name, inner in shape.fields]
    lacking = [(getattr(make, name).__set__, default) for name, default in shape.lacking]

    def read(data: bytes, at: int) -> tuple[Any, int]:
        record = object.__new__(make)
        name = ""
        try:
            for name, put, read_field in fields:  # noqa: B007 - the handlers name the field
                value, at = read_field(data, at)
                put(record, value)
            for put, default in lacking:
                put(record, default)
        except Unreadable as broken:
            raise broken.inside(f".{name}") from None
        except IndexError:
            raise Unreadable("the bytes end in the middle of it").inside(f".{name}") from None
        return record, at

    return read


def _array(shape: Shape) -> Read:
    assert shape.items is not None  # noqa: S101 - bind() gives every array its items
    read_item, smallest = _reader(shape.items), shape.items.smallest

    def read(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
        items: list[Any] = []
        count, end, at = _block(data, at, smallest)
        while count:
            try:
                for _ in range(count):
                    item, at = read_item(data, at)
                    items.append(item)
            except Unreadable as broken:
                raise broken.inside(f"[{len(items)}]") from None
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
                key, at = read_string(data, at)
                if key in items:
                    raise Unreadable(f"the key {key[:_SHOWN]!r} comes twice")
                items[key], at = read_item(data, at)
            _check_block_end(at, end)
            count, end, at = _block(data, at, smallest)
        return items, at

    return read


def _block(data: bytes, at: int, smallest: int) -> tuple[int, int | None, int]:
    """Read a block's head: how many items follow, where the block says that it ends (if it does), and a position."""
    count, at = read_long(data, at)
    end = None
    if count < 0:
        count = -count
        size, at = read_length(data, at)
        end = at + size
    if count * smallest > len(data) - at:
        raise Unreadable(f"declares {count} items, but only {len(data) - at} bytes are left")
    return count, end, at


def _check_block_end(at: int, end: int | None) -> None:
    if end is not None and at != end:
        raise Unreadable("a block of items has another size than it declares")


def _fixed(size: int) -> Read:
    def read(data: bytes, at: int) -> tuple[bytes, int]:
        end = at + size
        if end > len(data):
            raise IndexError
        return data[at:end], end

    return read


def _enum(symbols: tuple[str, ...]) -> Read:
    def read(data: bytes, at: int) -> tuple[str, int]:
        index, at = read_long(data, at)
        if not 0 <= index < len(symbols):
            raise Unreadable(f"symbol {index} of an enum with {len(symbols)}")
        return symbols[index], at

    return read
