"""Canonical JSON inside records: sorted keys, no spaces, ASCII, so that equal values have equal bytes."""

import json
from typing import Any

from driftline.errors import ConfigError


def write(value: object) -> str:
    """Return canonical JSON of plain dicts, lists, strings, numbers and bools.

    Raises:
        ValueError: a number is NaN or infinite.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def parse_object(what: str, text: str) -> dict[str, Any]:
    """Return the one object in ``text``; ``what`` names it in errors.

    Raises:
        ConfigError: it is no JSON, no object, or has a key twice.
    """
    try:
        # A key that comes twice would have one value for this reader and another for the next.
        raw = json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise ConfigError([f"{what} is no JSON: {error}"]) from None
    if not isinstance(raw, dict):
        raise ConfigError([f"{what} is a {type(raw).__name__}, not an object"])
    return raw


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = dict(pairs)
    if len(keys) != len(pairs):
        raise ValueError(f"a key comes twice among {', '.join(key for key, _ in pairs)}")
    return keys
