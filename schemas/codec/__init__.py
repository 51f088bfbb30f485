"""Bytes of every record: Avro in single-object encoding, no registry needed.

Avro 1.12, "Single-object encoding": the marker C3 01, the CRC-64-AVRO fingerprint of the schema's parsing canonical
form (8 bytes, little-endian), then the record in binary encoding. The fingerprint says which record it is.

`writing` checks every value that it writes, `reading` trusts nothing that the bytes declare, `shapes` binds a record
class to its schema in ``avsc/``, `fingerprint` names a schema by its content. All functions here are pure and may be
called from any thread.

A record that gained fields is still read as earlier releases wrote it: their schemas are in ``avsc/earlier``, named
``RECORD.NUMBER.avsc`` and never changed, and the fields that they lack have their defaults. It is written in one form
only, that of the schema in ``avsc``.
"""

import json
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from driftline.errors import NotEncodable, Undecodable
from driftline.schemas.codec.fingerprint import fingerprint
from driftline.schemas.codec.reading import record_reader
from driftline.schemas.codec.shapes import bind
from driftline.schemas.codec.writing import payload_view, record_writer
from driftline.schemas.records import AnyRecord, Event, LedgerRecord, PayloadRecord

MARKER: Final = b"\xc3\x01"
"""How single-object encoding begins."""

PREFIX_BYTES: Final = 10
"""Marker and fingerprint; the record's own bytes begin here."""


@dataclass(frozen=True, slots=True)
class _Codec:
    """One record type, compiled."""

    prefix: bytes
    has_payload: bool
    write: Callable[[bytearray, object], None]
    form: "_Form"


@dataclass(frozen=True, slots=True)
class _Form:
    """One form in which a record stands in logs, of this release or an earlier one."""

    record: type[Any]
    read: Callable[[bytes, int], Any]


_FOLDER: Final = resources.files("driftline.schemas").joinpath("avsc")


def _snake_case(record: type[Any]) -> str:
    words = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in record.__name__)
    return words.removeprefix("_")


def _prefix(schema: Any) -> bytes:
    return MARKER + fingerprint(schema)


def _load(record: type[Any]) -> _Codec:
    schema = json.loads(_FOLDER.joinpath(f"{_snake_case(record)}.avsc").read_text(encoding="utf-8"))
    shape = bind(record, schema)
    has_payload = shape.fields[-1][1].kind == "payload"
    return _Codec(_prefix(schema), has_payload, record_writer(shape), _Form(record, record_reader(shape)))


RECORD_TYPES: Final[tuple[type[Any], ...]] = typing.get_args(AnyRecord)
"""Every record type of a run."""

_BY_TYPE = MappingProxyType({record: _load(record) for record in RECORD_TYPES})


def _earlier_forms() -> Iterator[tuple[bytes, _Form]]:
    """Yield prefix and form of every schema that an earlier release wrote with."""
    by_name = {_snake_case(record): record for record in RECORD_TYPES}
    for file in _FOLDER.joinpath("earlier").iterdir():
        schema = json.loads(file.read_text(encoding="utf-8"))
        record = by_name[file.name.partition(".")[0]]
        yield _prefix(schema), _Form(record, record_reader(bind(record, schema, is_earlier=True)))


_BY_PREFIX = MappingProxyType(
    {
        **dict(_earlier_forms()),
        **{codec.prefix: codec.form for codec in _BY_TYPE.values()},
    }
)


@typing.overload
def encode(record: PayloadRecord) -> npt.NDArray[np.uint8]: ...


@typing.overload
def encode(record: Event | LedgerRecord) -> bytes: ...


@typing.overload
def encode(record: AnyRecord) -> bytes | npt.NDArray[np.uint8]: ...


def encode(record: AnyRecord) -> bytes | npt.NDArray[np.uint8]:
    """Return the bytes of a record; those of a payload record in one new uint8 array, the payload copied once.

    Equal records have equal bytes: maps are written in the order of their keys.

    Raises:
        NotEncodable: a value breaks the schema; names record, field and value.
    """
    codec = _BY_TYPE.get(type(record))
    if codec is None:
        raise NotEncodable(f"{type(record).__name__} is no record of a run")
    out = bytearray(codec.prefix)
    codec.write(out, record)
    if not codec.has_payload:
        return bytes(out)
    payload = payload_view(cast("PayloadRecord", record).payload)
    buffer = np.empty(len(out) + payload.size, np.uint8)
    buffer[: len(out)] = np.frombuffer(out, np.uint8)
    buffer[len(out) :] = payload
    return buffer


def decode(value: bytes | npt.NDArray[np.uint8] | None) -> AnyRecord:
    """Return the record in ``value``, every field of exactly the declared type.

    The payload of a payload record is a read-only memoryview over ``value``; it keeps those bytes alive. (What is not
    ``bytes`` is copied first: bytes that can still change are no message.)

    Raises:
        Undecodable: says why. Nothing else is raised for any bytes, and memory stays in proportion to them.
    """
    if value is None:
        raise Undecodable("a null value (a tombstone), not a record")
    data = value if type(value) is bytes else bytes(value)
    form = _BY_PREFIX.get(data[:PREFIX_BYTES])
    if form is None:
        raise Undecodable(_why_unknown(data))
    return cast("AnyRecord", form.read(data, PREFIX_BYTES))


def peek_type(value: bytes | npt.NDArray[np.uint8] | None) -> type[AnyRecord] | None:
    """Return the record type that ``value`` begins as, without reading further; None if it is none of ours."""
    if value is None:
        return None
    form = _BY_PREFIX.get(bytes(value[:PREFIX_BYTES]))
    return None if form is None else form.record


def schema_fingerprint(record_type: type[AnyRecord]) -> bytes:
    """Return the CRC-64-AVRO fingerprint of the schema that a record type is written with, 8 bytes as on the wire.

    Raises:
        NotEncodable: it is no record type of a run.
    """
    codec = _BY_TYPE.get(record_type)
    if codec is None:
        raise NotEncodable(f"{record_type.__name__} is no record of a run")
    return codec.prefix[len(MARKER) :]


def _why_unknown(data: bytes) -> str:
    if not data:
        return "an empty value"
    if not data.startswith(MARKER):
        return f"no Avro single-object marker (c3 01) in front: {data[:PREFIX_BYTES].hex(' ')}"
    if len(data) < PREFIX_BYTES:
        return f"{len(data)} bytes, fewer than the {PREFIX_BYTES} of marker and schema fingerprint"
    return f"unknown schema fingerprint {data[len(MARKER) : PREFIX_BYTES].hex()}"
