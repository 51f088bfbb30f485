"""The frozen configuration of a run, as `RunStart` records it.

It travels as canonical JSON (sorted keys, no spaces), so that equal settings have equal bytes. Everything that decides
numbers is in here; what only decides where and how fast (addresses, log levels) is not.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from driftline.errors import ConfigError

MODES = ("sync",)
TOP_SEED = 2**63 - 1


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
    max_unsettled: int = 2
    tick_interval_s: float = 0.25
    gone_after_ticks: int = 12

    def to_json(self) -> str:
        """Canonical JSON: equal settings give equal bytes."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True, separators=(",", ":"), allow_nan=False)


def differences(ours: RunConfig, theirs: RunConfig) -> list[str]:
    """Return one line a setting that differs, ``name: ours ≠ theirs``; empty when equal."""
    left, right = dataclasses.asdict(ours), dataclasses.asdict(theirs)
    return [f"{key}: {left[key]!r} here, {right[key]!r} in the run" for key in left if left[key] != right[key]]


def run_config_from_json(text: str) -> RunConfig:
    """Parse and check canonical JSON.

    Raises:
        ConfigError: lists every problem found.
    """
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise ConfigError([f"the run's configuration is no JSON: {error}"]) from None
    if not isinstance(raw, dict):
        raise ConfigError([f"the run's configuration is a {type(raw).__name__}, not an object"])
    problems = _unknown_or_missing(raw)
    if problems:
        raise ConfigError(problems)
    config = RunConfig(**{**raw, "rule": _rule(raw["rule"])})
    check(config)
    return config


def _unknown_or_missing(raw: Mapping[str, Any]) -> list[str]:
    known = {field.name: field for field in dataclasses.fields(RunConfig)}
    unknown = [f"{key}: unknown setting" for key in raw if key not in known]
    required = [name for name, field in known.items() if field.default is dataclasses.MISSING]
    return unknown + [f"{name}: missing" for name in required if name not in raw]


def _rule(raw: Any) -> RuleConfig:
    if not (isinstance(raw, dict) and set(raw) == {"name", "groups"} and isinstance(raw["groups"], list)):
        raise ConfigError([f"rule: needs a name and groups, got {raw!r}"])
    return RuleConfig(name=raw["name"], groups=tuple(dict(group) for group in raw["groups"]))


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
        *_check_int("max_unsettled", config.max_unsettled, 1, 1_000),
        *_check_int("gone_after_ticks", config.gone_after_ticks, 2, 1_000_000),
    ]
    if config.mode not in MODES:
        problems.append(f"mode: {config.mode!r} is not one of {', '.join(MODES)}")
    if config.mode == "sync" and config.staleness != 0:
        problems.append(f"staleness: {config.staleness!r} contradicts mode sync, which is staleness 0")
    if not (isinstance(config.tick_interval_s, int | float) and 0.01 <= config.tick_interval_s <= 3600):
        problems.append(f"tick_interval_s: {config.tick_interval_s!r} is not a number of seconds from 0.01 to 3600")
    if not config.rule.groups:
        problems.append("rule.groups: empty; at least one parameter group is needed")
    if problems:
        raise ConfigError(problems)


def _check_int(name: str, value: object, low: int, high: int) -> list[str]:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        return [f"{name}: {value!r} is not a whole number from {low} to {high}"]
    return []
