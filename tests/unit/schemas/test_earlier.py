"""Records as earlier releases wrote them are read for ever: what they lack has its default."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftline.errors import Undecodable
from driftline.schemas import codec, records
from driftline.schemas.codec import decode, encode, peek_type
from driftline.schemas.codec.shapes import bind
from driftline.schemas.records import AnyRecord, Contribution, Rejection, Skip, Version
from tests.support.strategies import RECORD_TYPES, avsc, records_of, snake_case
from tests.unit.schemas.test_codec import bits, types

FOLDER = Path(codec.__file__).parent.parent / "avsc" / "earlier"
GOLDEN = Path(__file__).parent / "golden" / "earlier"
EARLIER = sorted(FOLDER.iterdir())

by_file = pytest.mark.parametrize("file", EARLIER, ids=lambda file: file.stem)


def schema_of(file: Path) -> dict[str, Any]:
    """Return an earlier schema."""
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return schema


def type_of(file: Path) -> type[AnyRecord]:
    """Return the record that it is a schema of."""
    return next(one for one in RECORD_TYPES if snake_case(one.__name__) == file.name.partition(".")[0])


def as_written(file: Path, plain: Mapping[str, Any]) -> bytes:
    """Return the bytes of a record as the earlier release wrote it, made by another Avro writer."""
    schema = schema_of(file)
    canonical = fastavro.schema.to_parsing_canonical_form(schema)
    out = BytesIO()
    out.write(b"\xc3\x01" + bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO")))
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), plain)
    return out.getvalue()


def test_every_form_has_its_bytes() -> None:
    """One file of bytes for each earlier schema, and none without."""
    assert [file.stem for file in EARLIER] == sorted(file.stem for file in GOLDEN.iterdir())
    assert EARLIER


@by_file
def test_golden_bytes(file: Path) -> None:
    """Bytes that an earlier release wrote are still the same record; written again they have the present form."""
    golden = bytes.fromhex((GOLDEN / f"{file.stem}.hex").read_text(encoding="ascii"))
    assert peek_type(golden) is type_of(file)
    record = decode(golden)
    assert bytes(encode(record)) != golden
    assert decode(bytes(encode(record))) == record


@by_file
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_what_avro_makes_of_it(file: Path, data: st.DataObject) -> None:
    """Avro's own rules of schema resolution read the same values from the same bytes, defaults included."""
    value = as_written(file, asdict(data.draw(records_of(type_of(file), schema_of(file)))))
    reader = fastavro.parse_schema(avsc(type_of(file)))
    resolved = fastavro.schemaless_reader(BytesIO(value[10:]), fastavro.parse_schema(schema_of(file)), reader)
    record = decode(value)
    assert bits(resolved) == bits(record)
    assert types(record) == types(decode(bytes(encode(record))))


@by_file
def test_bytes_that_end_early(file: Path) -> None:
    """An earlier form is read as strictly as the present one."""
    golden = bytes.fromhex((GOLDEN / f"{file.stem}.hex").read_text(encoding="ascii"))
    with pytest.raises(Undecodable, match=type_of(file).__name__):
        decode(golden[:-1])
    with pytest.raises(Undecodable, match="1 bytes too many"):
        decode(golden + b"\0")


def test_what_they_lack() -> None:
    """Before scripts could set rates no contribution had any, and before samples were leased none were used up."""
    contribution = decode(bytes.fromhex((GOLDEN / "contribution.1.hex").read_text(encoding="ascii")))
    version = decode(bytes.fromhex((GOLDEN / "version.1.hex").read_text(encoding="ascii")))
    assert isinstance(contribution, Contribution)
    assert isinstance(version, Version)
    assert contribution.learning_rates == ()
    assert [use.learning_rates for use in version.uses] == [(), (), ()]
    assert contribution.samples == ()
    assert [use.samples for use in version.uses] == [(), (), ()]
    skip = decode(bytes.fromhex((GOLDEN / "skip.1.hex").read_text(encoding="ascii")))
    rejection = decode(bytes.fromhex((GOLDEN / "rejection.1.hex").read_text(encoding="ascii")))
    assert isinstance(skip, Skip)
    assert isinstance(rejection, Rejection)
    assert (skip.samples, rejection.burned) == ((), ())


def test_new_fields_have_one_default() -> None:
    """The one of the dataclass is the one of the schema, which other readers of the log go by."""
    for record_type in RECORD_TYPES:
        for schema, record in _records(avsc(record_type)):
            defaults = {field.name: field.default for field in fields(record) if field.default == ()}
            said = {one["name"]: tuple(one["default"]) for one in schema["fields"] if "default" in one}
            assert said == defaults, record.__name__


def test_only_what_has_a_default_may_lack() -> None:
    """An earlier schema without a field that needs a value stops the program at import; the present one lacks none."""

    @dataclass(frozen=True, slots=True)
    class Sample:
        count: int
        more: tuple[int, ...] = ()

    count = {"name": "count", "type": "long"}
    more = {"name": "more", "type": {"type": "array", "items": "long"}}
    assert bind(Sample, _sample(count), is_earlier=True).lacking == (("more", ()),)
    with pytest.raises(TypeError, match=r"fields \['more'\] in the schema, \['count', 'more'\] in the dataclass"):
        bind(Sample, _sample(more), is_earlier=True)
    with pytest.raises(TypeError, match=r"fields \['count'\] in the schema, \['count', 'more'\] in the dataclass"):
        bind(Sample, _sample(count))


def _sample(*fields_of: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Sample", "fields": list(fields_of)}


def _records(schema: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], type[Any]]]:
    found = [(schema, getattr(records, schema["name"]))]
    for field in schema["fields"]:
        items = field["type"].get("items") if isinstance(field["type"], dict) else None
        if isinstance(items, dict) and items["type"] == "record":
            found += _records(items)
    return found
