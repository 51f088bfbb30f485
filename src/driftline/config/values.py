"""From the text of a setting to its value, with one message for everything that it may not be."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from driftline.config.choosing import Given
from driftline.config.problems import Problems, hint
from driftline.schemas.run.setting import Key, Kind, choices, expected

_WHOLE = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]*)?)(ms|s)?")
_MAX_CHARS = 40
"""More than that is no number that a person means, and Python itself refuses to read very long ones."""


def read_value(key: Key, text: str) -> Any:
    """Return the value of a setting.

    Raises:
        ValueError: says what is wrong with the text, and what is valid.
    """
    shown = repr(text) if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]!r}…"
    words = choices(key.annotation)
    if words and text not in words:
        raise ValueError(f"{shown} is not known; {hint(text, words)}")
    value = _READERS[key.kind](text)
    if value == 0 and key.setting.zero:
        raise ValueError(f"{key.setting.zero}: give {expected(key.annotation)}")
    if value is None or not _is_valid(key, value):
        raise ValueError(f"{shown} is not {expected(key.annotation)}")
    return value


def read_pairs(pairs: Iterable[Given], problems: Problems, *, secret: bool = False) -> dict[str, str]:
    """Split each ``name=value`` at its first "=".

    Args:
        pairs: as they were given. A value is never repeated in a message.
        problems: gets what is wrong.
        secret: whether a text without "=" may be a part of a secret, and is not repeated either.
    """
    values: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.text.partition("=")
        name = name.strip()
        shown = "" if secret and name != name.lower() else f" {name}"  # names of properties are in lower case
        if not equals and secret:
            problems.add(f"{pair.source}: a text without '=' is no property; write {pair.source} NAME=VALUE")
        elif not equals:
            problems.add(f"{pair.source} {name!r}: a value is missing; write {pair.source} {name or 'name'}=VALUE")
        elif not name:
            problems.add(f"{pair.source}: a name is missing before the '='; write {pair.source} NAME=VALUE")
        elif name in values:
            problems.add(f"{pair.source}{shown}: is given twice; give it once")
        else:
            values[name] = value
    return values


def _is_valid(key: Key, value: object) -> bool:
    try:
        _adapter(key.annotation).validate_python(value)
    except ValidationError:
        return False
    return True


@cache
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)


def _whole(text: str) -> int | None:
    return int(text) if _WHOLE.fullmatch(text) and len(text) <= _MAX_CHARS else None


def _real(text: str) -> float | None:
    return float(text) if _REAL.fullmatch(text) and len(text) <= _MAX_CHARS else None


def _seconds(text: str) -> float | None:
    """Read a duration: ``2s``, ``500ms``, or a bare number of seconds."""
    found = _DURATION.fullmatch(text)
    return float(found[1]) * (0.001 if found[2] == "ms" else 1.0) if found else None


_READERS: Mapping[Kind, Callable[[str], Any]] = {
    Kind.WHOLE: _whole, Kind.REAL: _real, Kind.DURATION: _seconds, Kind.TEXT: str, Kind.ADDRESSES: str
}  # fmt: skip
