"""The frozen configuration of a run, as `RunStart` records it.

It travels as canonical JSON (sorted keys, no spaces), so that equal settings have equal bytes. Everything that decides
numbers is in here; what only decides where and how fast (addresses, log levels) is not.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from driftline.broker.topics import check_run_name
from driftline.errors import ConfigError, UsageError
from driftline.schemas import canonical_json

MODES = ("sync",)
TOP_SEED = 2**63 - 1
MIN_TICK_S = 0.01
MAX_TICK_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleConfig:
    """The update rule: ``name`` and, for each parameter group, its numbers (lr, momentum, betas …)."""

    name: str
    groups: tuple[Mapping[str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Settings of a run.

    Attributes:
        name: the run's name, part of its topic names.
        mode: how drift is bounded; ``sync`` is ssp with staleness 0.
        staleness: versions by which the fastest group may be ahead of the slowest, s ≥ 0.
        workers: how many workers must be ready before version 1 can be made.
        steps: the run ends at this version.
        seed: of data order and of everything random in workers.
        partitions: of the deltas, parameters and snapshots topics, P.
        rule: the optimizer.
        samples: of the training data; workers with another count are refused. 0: the workers' own business.
        batch_size: samples of one worker's gradient; likewise.
        max_unsettled: contributions of one group that may be under way, K.
        tick_interval_s: seconds between reading a tick and writing the next.
        gone_after_ticks: a member is gone when so many ticks were read without its heartbeat.
    """

    name: str
    mode: str = "sync"
    staleness: int = 0
    workers: int
    steps: int
    seed: int = 0
    partitions: int = 4
    rule: RuleConfig
    samples: int = 0
    batch_size: int = 0
    max_unsettled: int = 2
    tick_interval_s: float = 0.25
    gone_after_ticks: int = 12

    def to_json(self) -> str:
        """Canonical JSON: equal settings give equal bytes, also where one holds 1 and the other 1.0 for a number.

        For a configuration that `check` lets through.
        """
        return canonical_json.write(_plain(self))


def differences(ours: RunConfig, theirs: RunConfig) -> list[str]:
    """Return one line a setting that differs, with both values; empty when equal."""
    left, right = _plain(ours), _plain(theirs)
    return [f"{key}: {left[key]!r} here, {right[key]!r} in the run" for key in left if left[key] != right[key]]


def run_config_from_json(text: str) -> RunConfig:
    """Parse and check the JSON of a configuration; numbers of the rule come back as floats.

    Raises:
        ConfigError: lists every problem found.
    """
    raw = canonical_json.parse_object("the run's configuration", text)
    problems = _unknown_or_missing(raw)
    if "rule" in raw:
        problems += _misshapen_rule(raw["rule"])
    if problems:
        raise ConfigError(problems)
    rule = RuleConfig(name=raw["rule"]["name"], groups=tuple(raw["rule"]["groups"]))
    config = RunConfig(**{**raw, "rule": rule})
    check(config)
    numbers = tuple({key: _real(value) for key, value in group.items()} for group in rule.groups)
    rule = RuleConfig(name=rule.name, groups=numbers)
    return dataclasses.replace(config, rule=rule, tick_interval_s=_real(config.tick_interval_s))


def _unknown_or_missing(raw: Mapping[str, Any]) -> list[str]:
    known = {field.name: field for field in dataclasses.fields(RunConfig)}
    unknown = [f"{key}: unknown setting" for key in raw if key not in known]
    required = [name for name, field in known.items() if field.default is dataclasses.MISSING]
    return unknown + [f"{name}: missing" for name in required if name not in raw]


def check(config: RunConfig) -> None:
    """Check every value.

    Raises:
        ConfigError: lists every problem found, each with the valid range.
    """
    problems = [
        *_check_int("staleness", config.staleness, 0, 1_000_000),
        *_check_int("workers", config.workers, 1, 10_000),
        *_check_int("steps", config.steps, 1, 2**53),
        *_check_int("seed", config.seed, 0, TOP_SEED),
        *_check_int("partitions", config.partitions, 1, 1_000),
        *_check_int("samples", config.samples, 0, 2**53),
        *_check_int("batch_size", config.batch_size, 0, 2**53),
        *_check_int("max_unsettled", config.max_unsettled, 1, 1_000),
        *_check_int("gone_after_ticks", config.gone_after_ticks, 2, 1_000_000),
    ]
    if config.mode not in MODES:
        problems.append(f"mode: {config.mode!r} is not one of {', '.join(MODES)}")
    if config.mode == "sync" and isinstance(config.staleness, int) and config.staleness > 0:
        problems.append(f"staleness: {config.staleness!r} contradicts mode sync, which is staleness 0")
    if not (_is_number(config.tick_interval_s) and MIN_TICK_S <= config.tick_interval_s <= MAX_TICK_S):
        problems.append(
            f"tick_interval_s: {config.tick_interval_s!r} is not a number of seconds from {MIN_TICK_S} to {MAX_TICK_S}"
        )
    problems += _check_name(config.name) + _check_rule(config.rule)
    if problems:
        raise ConfigError(problems)


def _check_int(name: str, value: object, low: int, high: int) -> list[str]:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        return [f"{name}: {value!r} is not a whole number from {low} to {high}"]
    return []


def _check_name(name: object) -> list[str]:
    if not isinstance(name, str):
        return [f"name: {name!r} is no text"]
    try:
        check_run_name(name)
    except UsageError as error:
        return [f"name: {error}"]
    return []


def _check_rule(rule: RuleConfig) -> list[str]:
    """Check that there are names and finite numbers; which of them a rule knows is the rule's own business."""
    problems = []
    if not isinstance(rule.name, str) or not rule.name:
        problems.append(f"rule.name: {rule.name!r} is no name of an update rule")
    if not rule.groups:
        problems.append("rule.groups: empty; at least one parameter group is needed")
    for index, group in enumerate(rule.groups):
        problems += [
            f"rule.groups[{index}].{key}: {value!r} is not a finite number"
            for key, value in group.items()
            if not _is_number(value)
        ]
    return problems


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond float64
        return False


def _real(number: float) -> float:
    """Return a number in the one spelling that canonical JSON knows: 1 as 1.0, and -0.0 as 0.0."""
    return float(number) + 0.0


def _plain(config: RunConfig) -> dict[str, Any]:
    plain = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    groups = [{key: _real(value) for key, value in group.items()} for group in config.rule.groups]
    plain["rule"] = {"name": config.rule.name, "groups": groups}
    plain["tick_interval_s"] = _real(config.tick_interval_s)
    return plain


def _misshapen_rule(raw: object) -> list[str]:
    if not (isinstance(raw, dict) and set(raw) == {"name", "groups"} and isinstance(raw["groups"], list)):
        return [f"rule: needs a name and groups, got {raw!r}"]
    return [
        f"rule.groups[{index}]: {group!r} is no object of names and numbers"
        for index, group in enumerate(raw["groups"])
        if not isinstance(group, dict)
    ]
