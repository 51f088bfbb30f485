"""What a record looks like on the wire and in Python at once: an Avro schema bound to its dataclass.

The binding is checked when the codec is imported. A field that is missing, misspelled, out of order or of another type
on one side stops the program there, with the path of the field, and not in the middle of a run.

A schema of an earlier release may lack fields that have a default in the dataclass: what it wrote is read with those.
"""

import dataclasses
import typing
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from driftline.schemas.records import PayloadBytes

Kind: TypeAlias = Literal[
    "long", "double", "float", "boolean", "string", "bytes", "payload", "fixed", "enum", "array", "map", "record"
]

_PRIMITIVES: Mapping[str, type] = {
    "long": int,
    "double": float,
    "float": float,
    "boolean": bool,
    "string": str,
    "bytes": bytes,
}

_SMALLEST: Mapping[Kind, int] = {"double": 8, "float": 4}
"""Bytes of the smallest encoding of a kind; the kinds that are not here take one byte at least."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One Avro type with the Python type that carries it.

    Attributes:
        kind: the Avro type; ``payload`` is ``bytes`` that are never copied on reading.
        size: bytes of a ``fixed``.
        symbols: of an ``enum``, in order.
        items: of an ``array``, or the values of a ``map``.
        record: the dataclass of a ``record``.
        fields: names and shapes of a ``record``, in order.
        lacking: names and defaults of fields that a ``record`` of an earlier release does not have.
    """

    kind: Kind
    size: int = 0
    symbols: tuple[str, ...] = ()
    items: "Shape | None" = None
    record: type[Any] | None = None
    fields: tuple[tuple[str, "Shape"], ...] = ()
    lacking: tuple[tuple[str, Any], ...] = ()

    @property
    def smallest(self) -> int:
        """Bytes of the smallest possible encoding; bounds how many items a number of bytes can hold."""
        if self.kind == "record":
            return sum(shape.smallest for _, shape in self.fields)
        return self.size if self.kind == "fixed" else _SMALLEST.get(self.kind, 1)


@dataclass(frozen=True, slots=True)
class _Scope:
    """What holds for the whole of one schema: its named types so far, and whether it is an earlier release's."""

    named: dict[str, Mapping[str, Any]]
    is_earlier: bool


def bind(record: type[Any], schema: Mapping[str, Any], *, is_earlier: bool = False) -> Shape:
    """Bind a dataclass to its Avro schema (parsed JSON, named types defined before they are used).

    Args:
        record: the dataclass.
        schema: of this release, or of an earlier one.
        is_earlier: whether fields that have a default may be lacking.

    Raises:
        TypeError: they do not agree; names the field and both sides.
    """
    shape = _bind(schema, record, record.__name__, _Scope({}, is_earlier))
    if any(inner.kind == "payload" for _, inner in shape.fields[:-1]):
        raise TypeError(f"{record.__name__}: the payload has to be the last field, so that it is read in place")
    return shape


def _bind(schema: Any, hint: Any, path: str, scope: _Scope) -> Shape:
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return _primitive(schema, hint, path)
        if schema not in scope.named:
            raise TypeError(f"{path}: the schema names an unknown type {schema!r}")
        schema = scope.named[schema]
    if "name" in schema:
        scope.named[schema["name"]] = schema
    match schema["type"]:
        case "record":
            return _record(schema, hint, path, scope)
        case "array" | "map" as kind:
            return _collection(kind, schema, hint, path, scope)
        case "fixed" if hint is bytes:
            return Shape("fixed", size=schema["size"])
        case "enum" if hint is str:
            return Shape("enum", symbols=tuple(schema["symbols"]))
        case kind:
            raise TypeError(f"{path}: {kind} in the schema, {hint} in the dataclass")


def _primitive(schema: str, hint: Any, path: str) -> Shape:
    if schema == "bytes" and hint == PayloadBytes:
        return Shape("payload")
    if _PRIMITIVES[schema] is not hint:
        raise TypeError(f"{path}: {schema} in the schema, {hint} in the dataclass")
    return Shape(typing.cast("Kind", schema))


def _collection(kind: Literal["array", "map"], schema: Mapping[str, Any], hint: Any, path: str, scope: _Scope) -> Shape:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if kind == "array" and origin is tuple and arguments[1:] == (...,):
        items = _bind(schema["items"], arguments[0], f"{path}[]", scope)
    elif kind == "map" and origin is Mapping and arguments[0] is str:
        items = _bind(schema["values"], arguments[1], f"{path}{{}}", scope)
    else:
        raise TypeError(f"{path}: {kind} in the schema, {hint} in the dataclass")
    if items.smallest < 1 or items.kind == "payload":
        # An item of no bytes would let a few bytes declare any number of items.
        raise TypeError(f"{path}: items must take at least one byte and be no payload")
    return Shape(kind, items=items)


def _record(schema: Mapping[str, Any], hint: Any, path: str, scope: _Scope) -> Shape:
    if not (isinstance(hint, type) and dataclasses.is_dataclass(hint) and hint.__name__ == schema["name"]):
        raise TypeError(f"{path}: record {schema['name']} in the schema, {hint} in the dataclass")
    if hasattr(hint, "__post_init__") or "__slots__" not in vars(hint):
        raise TypeError(f"{path}: {hint.__name__} must have slots and no __post_init__: the reader fills the slots")
    theirs = [field["name"] for field in schema["fields"]]
    lacking = _lacking(hint, theirs) if scope.is_earlier else {}
    ours = [field.name for field in dataclasses.fields(hint)]
    if [name for name in ours if name not in lacking] != theirs:
        raise TypeError(f"{path}: fields {theirs} in the schema, {ours} in the dataclass; names and order must agree")
    hints = typing.get_type_hints(hint)
    fields = tuple(
        (field["name"], _bind(field["type"], hints[field["name"]], f"{path}.{field['name']}", scope))
        for field in schema["fields"]
    )
    return Shape("record", record=hint, fields=fields, lacking=tuple(lacking.items()))


def _lacking(record: type[Any], names: Collection[str]) -> dict[str, Any]:
    """Return name and default of the fields that ``names`` lacks; those without a default it must have.

    Defaults are shared by all records that are read, so they must be immutable.
    """
    return {
        field.name: field.default
        for field in dataclasses.fields(record)
        if field.name not in names and field.default is not dataclasses.MISSING
    }
