"""Checks of layouts: of their JSON, which may come from any process, and of their values. Every problem is listed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from driftline.errors import ConfigError
from driftline.schemas.codec import canonical_json
from driftline.schemas.model.dtypes import BUFFER, BUFFER_BYTES, KINDS, PARAMETER, PARAMETER_DTYPES

if TYPE_CHECKING:
    from driftline.schemas.model.layout import Layout, Segment

MAX_PARTITIONS: Final = 1_000
MAX_ELEMENTS: Final = 2**40
"""4 TiB of fp32; keeps a nonsense shape from asking for endless work."""

_SEGMENT_KEYS: Final[Mapping[str, type]] = {
    "name": str,
    "aliases": list,
    "shape": list,
    "dtype": str,
    "kind": str,
    "group": int,
    "offset": int,
}


def parsed(text: str) -> dict[str, Any]:
    """Return the JSON of a layout with the right keys and types in place; values are not checked yet.

    Raises:
        ConfigError: lists every problem found.
    """
    raw = canonical_json.parse_object("the layout", text)
    problems = list(_wrong_types("layout", raw, {"segments": list, "partitions": int}))
    if isinstance(raw.get("segments"), list):
        for index, segment in enumerate(raw["segments"]):
            problems += _of_raw_segment(f"segment {index}", segment)
    if problems:
        raise ConfigError(problems)
    return raw


def of_layout(layout: "Layout") -> list[str]:
    """Return everything that is wrong with a layout's values, one line each."""
    problems = []
    if not _is_int(layout.partitions, 1, MAX_PARTITIONS):
        problems.append(f"partitions: {layout.partitions!r} is not a whole number from 1 to {MAX_PARTITIONS}")
    for index, segment in enumerate(layout.segments):
        problems += _of_segment(f"segment {index} ({segment.name!r})", segment)
    if not problems:
        problems += [*_of_names(layout.segments), *_of_offsets(layout.segments)]
    return problems


def _wrong_types(where: str, raw: Mapping[str, Any], keys: Mapping[str, type]) -> Iterator[str]:
    yield from (f"{where}: {key!r} is unknown" for key in raw if key not in keys)
    for key, kind in keys.items():
        if key not in raw:
            yield f"{where}: {key} is missing"
        elif type(raw[key]) is not kind:
            yield f"{where}: {key} is a {type(raw[key]).__name__}, not a {kind.__name__}"


def _of_raw_segment(where: str, segment: object) -> Iterator[str]:
    if not isinstance(segment, dict):
        yield f"{where}: a {type(segment).__name__}, not an object"
        return
    yield from _wrong_types(where, segment, _SEGMENT_KEYS)


def _of_segment(where: str, segment: "Segment") -> Iterator[str]:
    for name in (segment.name, *segment.aliases):
        if not _is_text(name):
            yield f"{where}: the name {name!r} is no text, or empty"
    if not all(_is_int(size, 0, MAX_ELEMENTS) for size in segment.shape):
        yield f"{where}: shape {segment.shape!r} is not made of whole numbers from 0 to {MAX_ELEMENTS}"
    dtypes = tuple(BUFFER_BYTES) if segment.kind == BUFFER else PARAMETER_DTYPES
    if segment.dtype not in dtypes:
        yield f"{where}: dtype {segment.dtype!r} is not one of {', '.join(dtypes)}"
    if segment.kind not in KINDS:
        yield f"{where}: kind {segment.kind!r} is not one of {', '.join(KINDS)}"
    if not _is_int(segment.group, 0 if segment.kind == PARAMETER else -1, -1 if segment.kind == BUFFER else 2**31):
        yield f"{where}: {segment.group!r} is no index of a parameter group"
    if not _is_int(segment.offset, 0, MAX_ELEMENTS):
        yield f"{where}: offset {segment.offset!r} is not a whole number from 0 to {MAX_ELEMENTS}"


def _of_names(segments: "Sequence[Segment]") -> Iterator[str]:
    owners: dict[str, int] = {}
    for index, segment in enumerate(segments):
        for name in (segment.name, *segment.aliases):
            if name in owners:
                yield f"segment {index}: the name {name!r} is taken by segment {owners[name]}"
            owners.setdefault(name, index)


def _of_offsets(segments: "Sequence[Segment]") -> Iterator[str]:
    expected = 0
    for index, segment in enumerate(segments):
        if segment.offset != expected:
            word = "overlaps the one before" if segment.offset < expected else "leaves a gap"
            yield f"segment {index} ({segment.name!r}): offset {segment.offset}, not {expected}; it {word}"
        expected = segment.stop
    if expected > MAX_ELEMENTS:
        yield f"{expected} elements are more than {MAX_ELEMENTS}"
    if not any(segment.elements for segment in segments):
        yield f"none of {len(segments)} segments has an element: the model has nothing to train"


def _is_text(name: object) -> bool:
    # A lone surrogate passes through JSON, but no file, log or terminal takes it.
    return isinstance(name, str) and name != "" and name == name.encode(errors="replace").decode()


def _is_int(value: object, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high
