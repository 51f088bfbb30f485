"""One record of a run, decoded: fields as JSON can hold them, its payload in numbers, and what readers do with it.

Pure: bytes and the fold of the ledger in, a description out.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from driftline.broker.port import Record
from driftline.errors import Undecodable
from driftline.observe.records.annotated_ledger import AnnotatedLedger
from driftline.observe.records.record_verdict import verdict
from driftline.observe.records.selection import RecordPosition
from driftline.schemas.codec import decode, peek_type
from driftline.schemas.digests import verify_digest
from driftline.schemas.model.layout import Layout
from driftline.schemas.model.tensors import decode_fp32, unpack_presence
from driftline.schemas.records import AnyRecord, Delta, GroupId, PayloadRecord

FIRST_BYTES = 64
"""Bytes to show of a value that is no record."""

JSON_FIELDS = ("config", "layout")
"""Fields that hold JSON text of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadView:
    """Numbers of a payload. ``low`` and ``high`` are of the finite elements, ``norm`` is their 2-norm.

    Attributes:
        digest: ``right``, ``wrong``, or ``unknown`` while the run has no identity.
        not_finite: how many elements are NaN or infinite.
    """

    codec: str
    dtype: str
    elements: int
    bytes: int
    low: float | None
    high: float | None
    norm: float
    not_finite: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordView:
    """A record, or bytes that cannot be decoded as one.

    Attributes:
        position: such as ``deltas/3@100``.
        place: the same, under its former name.
        timestamp_ms: append time at the broker, milliseconds since the epoch.
        key: as text, or in hex if it is no text; None without a key.
        size: of the value in bytes; None for a tombstone.
        type: of the record; None if the value is no record.
        fields: without the payload; bytes in hex. Of a delta ``present`` names the tensors that had a gradient.
        verdict: what readers of the run do with it, in words.
        problem: why the value is no record; empty if it is one.
        first_bytes: of a value that is no record, in hex.
    """

    position: str
    place: str
    timestamp_ms: int
    key: str | None
    size: int | None
    type: str | None
    fields: Mapping[str, Any]
    payload: PayloadView | None
    verdict: str
    problem: str = ""
    first_bytes: str = ""


def view_record(position: RecordPosition, found: Record, ledger: AnnotatedLedger) -> RecordView:
    """Describe a record.

    Args:
        position: where it was found, its offset from the beginning.
        found: the record.
        ledger: the whole ledger, with every entry.
    """
    value = found.value or b""
    view = RecordView(
        position=str(position),
        place=str(position),
        timestamp_ms=found.timestamp_ms,
        key=_text(found.key),
        size=None if found.value is None else len(value),
        type=None,
        fields={},
        payload=None,
        verdict="",
    )
    try:
        record = decode(found.value)
    except Undecodable as error:
        first_bytes = value[:FIRST_BYTES].hex()
        return replace(view, verdict=_fate(found.value), problem=str(error), first_bytes=first_bytes)
    return replace(
        view,
        type=type(record).__name__,
        fields=_fields(record, ledger.state.layout if ledger.state.has_begun else None),
        payload=_payload(record, value, ledger) if isinstance(record, PayloadRecord) else None,
        verdict=verdict(position, record, value, ledger),
    )


def _fate(value: bytes | None) -> str:
    """Describe what becomes of a value that is no record."""
    if value is None:
        return "readers pass over it: a tombstone lets compaction delete what stood under its key"
    begins_as = peek_type(value)
    begins = "" if begins_as is None else f"it begins as a {begins_as.__name__}; "
    return f"{begins}it stays where it is, readers count it and go on"


def _text(key: bytes | None) -> str | None:
    if key is None:
        return None
    text = key.decode(errors="replace")
    return text if text.isprintable() and "\ufffd" not in text else key.hex()


def _fields(record: AnyRecord, layout: Layout | None) -> dict[str, Any]:
    found = {one.name: getattr(record, one.name) for one in fields(record) if one.name != "payload"}
    shown = {name: _own_json(value) if name in JSON_FIELDS else plain(value) for name, value in found.items()}
    if isinstance(record, Delta) and layout is not None:
        shown["present"] = _present(record, layout)
    return shown


def _present(record: Delta, layout: Layout) -> list[str] | None:
    """Name the tensors that had a gradient, as far as they are in the shard; None if the bitmap cannot be."""
    try:
        pieces = layout.pieces(record.shard)
        flags = unpack_presence(record.presence, len(pieces))
    except (IndexError, Undecodable):
        return None
    names = (layout.segments[piece.segment_index].name for piece in pieces)
    return [name for name, flag in zip(names, flags, strict=True) if flag]


def _own_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def plain(value: Any) -> Any:
    """Return what JSON can hold: bytes in hex, groups as ``offset.index``, null for a number that is not finite."""
    if isinstance(value, GroupId):
        return str(value)
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in sorted(value.items())}
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, bytes):
        return value.hex()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _payload(record: PayloadRecord, value: bytes, ledger: AnnotatedLedger) -> PayloadView:
    digest = "unknown"
    if ledger.state.has_begun:
        digest = "right" if verify_digest(ledger.state.start.run, value, record) else "wrong"
    try:
        numbers = decode_fp32(record.payload, record.elements)
    except Undecodable:
        numbers = np.empty(0, np.float32)  # the verdict says so
    finite = numbers[np.isfinite(numbers)].astype(np.float64)
    return PayloadView(
        codec=record.codec,
        dtype="float32",
        elements=record.elements,
        bytes=len(record.payload),
        low=float(finite.min()) if finite.size else None,
        high=float(finite.max()) if finite.size else None,
        norm=float(np.sqrt(np.sum(np.square(finite)))),
        not_finite=int(numbers.size - finite.size),
        digest=digest,
    )
