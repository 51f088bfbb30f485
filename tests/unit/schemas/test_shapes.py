"""A record class and its schema file that do not agree stop the program at import, with the field in the message."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from driftline.schemas.codec.shapes import bind
from driftline.schemas.records import GroupId, PayloadBytes

LONG = {"name": "count", "type": "long"}
GROUP = {
    "type": "record",
    "name": "GroupId",
    "fields": [{"name": "offset", "type": "long"}, {"name": "index", "type": "long"}],
}


def sample(**hints: Any) -> type[Any]:
    """Return a record class called Sample."""
    return dataclass(frozen=True, slots=True)(type("Sample", (), {"__annotations__": hints}))


def schema(*fields: Mapping[str, Any], name: str = "Sample") -> dict[str, Any]:
    """Return a record schema."""
    return {"type": "record", "name": name, "fields": list(fields)}


def test_agreement() -> None:
    """Every Avro type has one Python type; a bound record knows the smallest size that it can have."""
    fields = {
        "count": ("long", int),
        "loss": ("double", float),
        "coefficient": ("float", float),
        "flag": ("boolean", bool),
        "text": ("string", str),
        "raw": ("bytes", bytes),
        "hash": ({"type": "fixed", "name": "Hash", "size": 32}, bytes),
        "again": ("Hash", bytes),
        "codec": ({"type": "enum", "name": "Codec", "symbols": ["fp32"]}, str),
        "group": (GROUP, GroupId),
        "groups": ({"type": "array", "items": "GroupId"}, tuple[GroupId, ...]),
        "metrics": ({"type": "map", "values": "double"}, Mapping[str, float]),
        "payload": ("bytes", PayloadBytes),
    }
    shape = bind(
        sample(**{name: hint for name, (_, hint) in fields.items()}),
        schema(*({"name": name, "type": avro} for name, (avro, _) in fields.items())),
    )
    assert [name for name, _ in shape.fields] == list(fields)
    assert shape.smallest == 1 + 8 + 4 + 1 + 1 + 1 + 32 + 32 + 1 + 2 + 1 + 1 + 1


HASHES = {"type": "array", "items": {"type": "fixed", "name": "Empty", "size": 0}}

WRONG: list[tuple[type[Any], dict[str, Any], str]] = [
    (sample(amount=int), schema(LONG), r"Sample: fields \['count'\] in the schema, \['amount'\] in the dataclass"),
    (sample(count=int, more=int), schema(LONG), r"Sample: fields \['count'\] in the schema, \['count', 'more'\]"),
    (
        sample(b=int, a=int),
        schema({"name": "a", "type": "long"}, {"name": "b", "type": "long"}),
        r"Sample: fields \['a', 'b'\] in the schema, \['b', 'a'\] in the dataclass; names and order must agree",
    ),
    (sample(count=int), schema(LONG, name="Other"), r"Sample: record Other in the schema"),
    (sample(count=float), schema(LONG), r"Sample\.count: long in the schema, <class 'float'> in the dataclass"),
    (sample(count=bool), schema(LONG), r"Sample\.count: long in the schema, <class 'bool'>"),
    (sample(count=int | None), schema(LONG), r"Sample\.count: long in the schema"),
    (sample(count=str), schema({"name": "count", "type": GROUP}), r"Sample\.count: record GroupId in the schema"),
    (sample(a=int), schema({"name": "a", "type": {"type": "fixed", "name": "F", "size": 2}}), r"Sample\.a: fixed in"),
    (sample(a=int), schema({"name": "a", "type": {"type": "enum", "name": "E", "symbols": []}}), r"Sample\.a: enum in"),
    (sample(a=list[int]), schema({"name": "a", "type": {"type": "array", "items": "long"}}), r"Sample\.a: array in"),
    (sample(a=tuple[int, int]), schema({"name": "a", "type": {"type": "array", "items": "long"}}), r"Sample\.a: array"),
    (sample(a=dict[str, int]), schema({"name": "a", "type": {"type": "map", "values": "long"}}), r"Sample\.a: map in"),
    (sample(a=int), schema({"name": "a", "type": "Unknown"}), r"Sample\.a: the schema names an unknown type 'Unknown'"),
    (sample(a=tuple[bytes, ...]), schema({"name": "a", "type": HASHES}), r"Sample\.a: items must take at least one"),
    (
        sample(payload=PayloadBytes, count=int),
        schema({"name": "payload", "type": "bytes"}, LONG),
        r"Sample: the payload has to be the last field",
    ),
]


@pytest.mark.parametrize(("record", "avro", "message"), WRONG, ids=[message for *_, message in WRONG])
def test_disagreement(record: type[Any], avro: dict[str, Any], message: str) -> None:
    """The message names the field and both sides."""
    with pytest.raises(TypeError, match=message):
        bind(record, avro)


def test_records_are_filled_without_their_constructor() -> None:
    """So a record with slots missing, or with work to do after construction, is refused."""
    unslotted: type[Any] = dataclass(frozen=True)(type("Sample", (), {"__annotations__": {"count": int}}))
    with pytest.raises(TypeError, match="must have slots"):
        bind(unslotted, schema(LONG))
    busy = type("Sample", (), {"__annotations__": {"count": int}, "__post_init__": lambda _: None})
    with pytest.raises(TypeError, match="no __post_init__"):
        bind(dataclass(frozen=True, slots=True)(busy), schema(LONG))
