"""A run's configuration as canonical JSON: equal settings have equal bytes, so they can be compared and hashed."""

import dataclasses
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from driftline.errors import ConfigError
from driftline.schemas.codec import canonical_json
from driftline.schemas.run.config import RuleConfig, RunConfig, check, is_number
from driftline.schemas.run.consistency import Consistency
from driftline.schemas.run.data import DataConfig
from driftline.schemas.run.local_work import LocalWork
from driftline.schemas.run.schedule import Schedule

SECTIONS: Mapping[str, type[Consistency] | type[Schedule] | type[LocalWork] | type[DataConfig]] = {
    "consistency": Consistency,
    "schedule": Schedule,
    "local": LocalWork,
    "data": DataConfig,
}


def run_config_to_json(config: RunConfig) -> str:
    """Return canonical JSON of a configuration that `check` lets through."""
    return canonical_json.write(_plain(config))


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


_NONE = _Nothing()


def differences(ours: RunConfig, theirs: RunConfig) -> list[str]:
    """Return one line a setting that differs, with both values; empty when equal."""
    left, right = _flat(_plain(ours)), _flat(_plain(theirs))
    keys = [*left, *(key for key in right if key not in left)]
    differing = [key for key in keys if left.get(key, _NONE) != right.get(key, _NONE)]
    return [f"{key}: {left.get(key, _NONE)!r} here, {right.get(key, _NONE)!r} in the run" for key in differing]


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
    problems = _key_problems("", raw, RunConfig)
    for name, section in SECTIONS.items():
        problems += _section_problems(name, raw.get(name, {}), section)
    problems += _misshapen_rule(raw["rule"]) if "rule" in raw else []
    if problems:
        raise ConfigError(problems)
    rule = RuleConfig(name=raw["rule"]["name"], groups=tuple(raw["rule"]["groups"]))
    sections = {name: section(**raw[name]) for name, section in SECTIONS.items() if name in raw}
    config = RunConfig(**{**raw, **sections, "rule": rule})
    check(config)
    return _with_floats(config)


def _section_problems(name: str, raw: object, section: type[Any]) -> list[str]:
    if not isinstance(raw, dict):
        return [f"{name}: {raw!r} is no object of settings"]
    return _key_problems(f"{name}.", raw, section)


def _key_problems(prefix: str, raw: Mapping[str, Any], section: type[Any]) -> list[str]:
    fields = {field.name: field for field in dataclasses.fields(section)}
    unknown = [f"{prefix}{key}: unknown setting" for key in raw if key not in fields]
    required = [
        name
        for name, field in fields.items()
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    return unknown + [f"{prefix}{name}: missing" for name in required if name not in raw]


def _misshapen_rule(raw: object) -> list[str]:
    if not (isinstance(raw, dict) and set(raw) == {"name", "groups"} and isinstance(raw["groups"], list)):
        return [f"rule: needs a name and groups, got {raw!r}"]
    return [
        f"rule.groups[{index}]: {group!r} is no object of names and numbers"
        for index, group in enumerate(raw["groups"])
        if not isinstance(group, dict)
    ]


def _with_floats(config: RunConfig) -> RunConfig:
    """Give every real number the one spelling that canonical JSON knows, also where a stranger wrote 1 for 1.0."""
    groups = tuple({key: _real(value) for key, value in group.items()} for group in config.rule.groups)
    return dataclasses.replace(
        config,
        rule=RuleConfig(name=config.rule.name, groups=groups),
        consistency=_floats_of(config.consistency),
        schedule=_floats_of(config.schedule),
        local=_floats_of(config.local),
        tick_interval_s=_real(config.tick_interval_s),
    )


def _floats_of(section: Any) -> Any:
    reals = [field.name for field in dataclasses.fields(section) if field.type in ("float", float)]
    return dataclasses.replace(section, **{name: _real(getattr(section, name)) for name in reals})


def _plain(config: RunConfig) -> dict[str, Any]:
    plain = dataclasses.asdict(_with_floats(config))
    plain["rule"]["groups"] = list(plain["rule"]["groups"])
    return plain


def _flat(plain: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in plain.items():
        if name in SECTIONS:
            flat |= {f"{name}.{key}": one for key, one in value.items()}
        elif name == "rule":
            flat["rule"] = value["name"]
            for index, group in enumerate(value["groups"]):
                flat |= {f"rule.groups[{index}].{key}": one for key, one in group.items()}
        else:
            flat[name] = value
    return flat


def _real(number: float) -> float:
    """Return 1 as 1.0, and -0.0 as 0.0; what is no number is left for `check` to name."""
    return float(number) + 0.0 if is_number(number) else number
