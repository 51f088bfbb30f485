"""A run's configuration as canonical JSON: equal settings have equal bytes, so they can be compared and hashed."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from driftline.broker.topics import check_run_name
from driftline.errors import ConfigError, UsageError
from driftline.schemas.codec import canonical_json
from driftline.schemas.run.config import RunConfig
from driftline.schemas.run.setting import Strict, expected, plain_type

NOTHING = "nothing"


def run_config_to_json(config: RunConfig) -> str:
    """Return canonical JSON of a configuration that `check` lets through."""
    return canonical_json.write(_plain(config))


@lru_cache(maxsize=4)
def run_config_from_json(text: str) -> RunConfig:
    """Parse and check the JSON of a configuration; real numbers come back as floats.

    Workers propose the same settings, and the run's start repeats them: the last few texts are not parsed again.

    Raises:
        ConfigError: lists every problem found.
    """
    raw = canonical_json.parse_object("the run's configuration", text)
    if "data" not in raw:  # as release 0.1 wrote it: nothing was leased, and both only compared
        raw = {name: value for name, value in raw.items() if name not in ("samples", "batch_size")}
    return _checked(raw)


def check(config: RunConfig) -> None:
    """Check every value.

    Raises:
        ConfigError: lists every problem found, each with the valid range.
    """
    _checked(dataclasses.asdict(config))


def differences(ours: RunConfig, theirs: RunConfig) -> list[str]:
    """Return one line a setting that differs, with both values; empty when equal."""
    left, right = _flat("", _plain(ours)), _flat("", _plain(theirs))
    names = [*left, *(name for name in right if name not in left)]
    shown = ((name, *(repr(side[name]) if name in side else NOTHING for side in (left, right))) for name in names)
    return [f"{name}: {here} here, {there} in the run" for name, here, there in shown if here != there]


def _checked(raw: Mapping[str, Any]) -> RunConfig:
    found = _parsed(raw)
    problems = _name_problems(raw.get("name"))
    problems += found if isinstance(found, list) else [f"{name}: {why}" for name, why in found.contradictions()]
    if problems or isinstance(found, list):
        raise ConfigError(problems)
    return found


def _name_problems(name: object) -> list[str]:
    try:
        if isinstance(name, str):
            check_run_name(name)
    except UsageError as error:
        return [f"name: {error}"]
    return []


def _parsed(raw: Mapping[str, Any]) -> RunConfig | list[str]:
    """Return a configuration whose values have the right types and ranges, or what is wrong with them."""
    try:
        # pydantic takes lists for tuples and whole numbers for floats, and nothing else, only in JSON.
        return _adapter().validate_json(json.dumps(raw, default=repr))
    except ValidationError as error:
        return [_problem(one["loc"], one["type"], one["input"]) for one in error.errors(include_url=False)]


@cache
def _adapter() -> TypeAdapter[RunConfig]:
    return TypeAdapter(RunConfig)


def _problem(place: Sequence[str | int], kind: str, value: object) -> str:
    name = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in place).removeprefix(".")
    if kind == "missing":
        return f"{name}: missing"
    if kind == "unexpected_keyword_argument":
        return f"{name}: unknown setting"
    return f"{name}: {value!r} is not {_expected(RunConfig, place)}"


def _expected(annotation: Any, place: Sequence[str | int]) -> str:
    """Return the valid values at a place inside a type."""
    for one in place:
        plain = plain_type(annotation)
        inner = get_args(plain)[:: -1 if isinstance(one, str) else 1]  # of a mapping its values, of a list its items
        annotation = get_type_hints(plain, include_extras=True)[str(one)] if _is_section(plain) else inner[0]
    plain = plain_type(annotation)
    if _is_section(plain):
        return "an object of settings"
    names = {tuple: "a list of parameter groups", Mapping: "an object of names and numbers"}
    return names.get(getattr(plain, "__origin__", plain)) or expected(annotation)


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Strict)


def _plain(config: RunConfig) -> dict[str, Any]:
    """Return plain values, each real number in the one spelling that canonical JSON knows: 1 as 1.0, -0.0 as 0.0."""
    found = _parsed(dataclasses.asdict(config))
    plain = dataclasses.asdict(config if isinstance(found, list) else found)
    return {name: _positive(value) for name, value in plain.items()}


def _positive(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _positive(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_positive(one) for one in value]
    return value + 0.0 if isinstance(value, float) else value


def _flat(name: str, value: Any) -> dict[str, Any]:
    """Return every single value by its name; the name of the rule is called ``rule``."""
    parts = [(f".{key}" if name else key, one) for key, one in value.items()] if isinstance(value, dict) else []
    parts += [(f"[{index}]", one) for index, one in enumerate(value)] if isinstance(value, list) else []
    if not isinstance(value, dict | list):
        return {"rule" if name == "rule.name" else name: value}
    return {key: one for part, inner in parts for key, one in _flat(f"{name}{part}", inner).items()}
