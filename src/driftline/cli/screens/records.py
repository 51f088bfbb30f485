"""What ``driftline show`` prints for people."""

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import singledispatch
from typing import Any

from driftline.cli.screens.tables import NOTHING, table
from driftline.observe.records.entry_text import printable
from driftline.observe.records.model_difference import ModelDifference, SegmentDifference
from driftline.observe.records.record_view import PayloadView, RecordView
from driftline.observe.records.version_view import VersionView

SHORT_HEX = 16
BYTES_A_LINE = 16
LONG_LIST = 40
"""Rows of a nested list that are shown; `--json` has all."""


@singledispatch
def lines_of(seen: object) -> list[str]:
    """Return what a person wants to see of it."""
    raise AssertionError(f"no view shows a {type(seen).__name__}")


# -- a record --------------------------------------------------------------------------------------------------------


@lines_of.register
def record_lines(seen: RecordView) -> list[str]:
    """Return a record: what it is, its fields, its payload, what becomes of it."""
    facts = [
        ("record", f"{seen.position}  {seen.type or 'no record'}"),
        ("written", clock_words(seen.timestamp_ms)),
        ("value", "none, a tombstone" if seen.size is None else f"{seen.size:,} bytes"),
    ]
    if seen.key is not None:
        facts.append(("key", seen.key))
    if seen.problem:
        facts.append(("problem", printable(seen.problem)))
    facts.append(("verdict", printable(seen.verdict)))
    lines = table(facts)
    if seen.first_bytes:
        lines += ["", *_hex_lines(bytes.fromhex(seen.first_bytes))]
    return [*lines, *_field_lines(seen.fields), *_payload_lines(seen.payload)]


def _field_lines(fields: Mapping[str, Any]) -> list[str]:
    """Return plain fields as a table, and each list of records as a table of its own."""
    flat = [(name, _cell(value)) for name, value in _flat(fields) if not _is_list_of_records(value)]
    lines = ["", *table(flat)] if flat else []
    for name, value in _flat(fields):
        if _is_list_of_records(value):
            lines += ["", f"{name} ({len(value)})", *(f"  {line}" for line in _rows(value))]
    return lines


def _flat(fields: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def _is_list_of_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def _rows(records: Sequence[Mapping[str, Any]]) -> list[str]:
    shown = records[:LONG_LIST]
    names = list(dict.fromkeys(name for one in shown for name in one))
    rows = [[_cell(one.get(name), short=True) for name in names] for one in shown]
    left = len(records) - len(shown)
    return [*table([names, *rows]), *([f"… and {left} more; --json has all"] if left else [])]


def _cell(value: Any, *, short: bool = False) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, list):
        return ", ".join(_cell(one, short=True) for one in value) or NOTHING
    if isinstance(value, Mapping) and value:
        return " ".join(f"{name} {_cell(one)}" for name, one in value.items())
    text = NOTHING if value in (None, "", {}) else str(value)
    return printable(f"{text[:SHORT_HEX]}…" if short and len(text) > 2 * SHORT_HEX else text)


def _payload_lines(payload: PayloadView | None) -> list[str]:
    if payload is None:
        return []
    facts = [
        (
            "payload",
            f"{payload.elements:,} elements of {payload.dtype}, codec {payload.codec}, {payload.bytes:,} bytes",
        ),
        ("digest", payload.digest),
        ("range", f"{_number(payload.low)} to {_number(payload.high)}, 2-norm {_number(payload.norm)}"),
    ]
    if payload.not_finite:
        facts.append(("not finite", f"{payload.not_finite:,} elements"))
    return ["", *table(facts)]


def _hex_lines(data: bytes) -> list[str]:
    lines = []
    for at in range(0, len(data), BYTES_A_LINE):
        part = data[at : at + BYTES_A_LINE]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)  # noqa: PLR2004 - printable ASCII
        lines.append(f"{at:04x}  {part.hex(' '):47}  {text}")
    return lines


# -- a version -------------------------------------------------------------------------------------------------------


@lines_of.register
def version_lines(seen: VersionView) -> list[str]:
    """Return a version and what went into it."""
    metrics = ", ".join(f"{name} {_number(value)}" for name, value in seen.metrics.items())
    facts = [
        ("version", f"{seen.version} of run {seen.run}"),
        ("made by", f"ledger@{seen.offset}, term {seen.term}"),
        ("written", clock_words(seen.timestamp_ms)),
        ("head", seen.head),
        ("published", "yes" if seen.published else "no"),
        ("digest", seen.digest or NOTHING),
        ("parameters", seen.parameters_digest or NOTHING),
        ("metrics", f"{metrics} (held-out data)" if metrics else NOTHING),
        ("learning rates", ", ".join(map(_number, seen.learning_rates)) or NOTHING),
        ("rho", _number(seen.rho)),
        ("deltas", f"{seen.payload_bytes:,} bytes of payload{_positions(seen.positions)}"),
    ]
    return [*table(facts), *_use_lines(seen)]


def _positions(positions: Mapping[str, int]) -> str:
    last = [f"deltas/{partition}@{offset - 1}" for partition, offset in positions.items()]
    return f", the last ones at {', '.join(last)}" if last else ""


def _use_lines(seen: VersionView) -> list[str]:
    if not seen.uses:
        return []
    head = ("worker", "group", "clock", "kind", "base", "staleness", "weight", "loss", "coefficient", "bytes", "root")
    rows = [
        (
            one.worker,
            one.group,
            str(one.clock),
            one.kind,
            str(one.base_version),
            str(one.staleness),
            _number(one.weight),
            _number(one.loss),
            _number(one.coefficient),
            f"{one.payload_bytes:,}",
            one.root[:SHORT_HEX],
        )
        for one in seen.uses
    ]
    return ["", *table([head, *rows])]


# -- a difference ----------------------------------------------------------------------------------------------------


@lines_of.register
def difference_lines(seen: ModelDifference) -> list[str]:
    """Return how a model changed, tensor by tensor."""
    changed = "the same bits" if seen.same_bits else f"{seen.changed:,} of {seen.elements:,} elements have other bits"
    head = ("tensor", "shape", "norm of change", "relative", "largest", "changed", "bits")
    summary = (
        f"version {seen.first} to version {seen.second} of run {seen.run}: {changed}, "
        f"norm of change {_number(seen.norm)}, largest {_number(seen.largest)}"
    )
    return [summary, "", *table([head, *(_segment_row(one) for one in seen.segments)])]


def _segment_row(one: SegmentDifference) -> tuple[str, ...]:
    shape = "x".join(map(str, one.shape)) or "scalar"
    bits = "same" if one.same_bits else "other"
    return (
        one.name, shape, _number(one.norm), _number(one.relative), _number(one.largest), f"{one.changed:,}", bits
    )  # fmt: skip


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.6g}"


def clock_words(timestamp_ms: int) -> str:
    """Write an append time as UTC, to the millisecond."""
    seconds, rest = divmod(timestamp_ms, 1000)
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(seconds))}.{rest:03d} UTC"
