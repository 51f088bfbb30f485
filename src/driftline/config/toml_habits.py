"""Habits of other languages that TOML does not share, found line by line in a text that is no TOML.

The parser stops at the first of them and names a column; here all are found, each with what to write instead.
"""

import re
from collections.abc import Iterator

_BOOLEANS = {"yes": "true", "on": "true", "True": "true", "TRUE": "true", "Yes": "true", "On": "true"}
_BOOLEANS |= {"no": "false", "off": "false", "False": "false", "FALSE": "false", "No": "false", "Off": "false"}
_NOTHING = {"None", "null", "Null", "NULL", "~", "nil", "undefined"}

_YAML = re.compile(r"""\s*([A-Za-z_][A-Za-z0-9_.-]*)\s*:(?:\s+(\S.*?))?\s*$""")
_BARE = re.compile(r"""\s*([A-Za-z0-9_."'-]+)\s*=\s*([^\s"'\[{#][^"'\[{#]*?)?\s*(?:#.*)?$""")
_VALUE = re.compile(
    r"true|false|[+-]?(?:inf|nan)|[+-]?\d(?:_?\d)*(?:\.\d(?:_?\d)*)?(?:[eE][+-]?\d(?:_?\d)*)?"
    r"|0x[0-9A-Fa-f_]+|0o[0-7_]+|0b[01_]+|\d{4}-\d\d-\d\d.*|\d\d:\d\d.*"
)
_POINT = re.compile(r"[+-]?(?:\.\d+|\d+\.)(?:[eE][+-]?\d+)?")


def habits(text: str) -> Iterator[tuple[int, str]]:
    """Yield line numbers, and what to write there instead."""
    for number, line in enumerate(text.splitlines(), start=1):
        said = _habit(line)
        if said:
            yield number, said


def _habit(line: str) -> str:
    if line.lstrip().startswith(("#", "[", '"', "'")) and "=" not in line:
        return ""
    yaml = _YAML.fullmatch(line)
    if yaml:
        name, value = yaml[1], yaml[2]
        return f"{line.strip()!r} is YAML; TOML writes " + (f"{name} = {_as_toml(value)}" if value else f"[{name}]")
    bare = _BARE.fullmatch(line)
    return _about(bare[1], (bare[2] or "").strip()) if bare else ""


def _about(name: str, value: str) -> str:
    if not value:
        return f"{name} has no value; give it one or leave the line out"
    if _VALUE.fullmatch(value):
        return ""
    if value in _NOTHING:
        return f"{name} = {value}: TOML has no such value; leave the line out"
    if value in _BOOLEANS:
        return f"{name} = {value}: TOML writes {_BOOLEANS[value]}, or {_quoted(value)} for text"
    if _POINT.fullmatch(value):
        return f"{name} = {value}: a decimal point needs digits on both sides"
    return f"{name} = {value}: text needs quotes; write {name} = {_quoted(value)}"


def _as_toml(value: str) -> str:
    value = value.split(" #", maxsplit=1)[0].strip()
    if value[:1] in "\"'[{" or _VALUE.fullmatch(value):
        return value
    return _BOOLEANS.get(value, _quoted(value))


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
