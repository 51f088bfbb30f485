"""The frozen configuration of a run, as `RunStart` records it.

Everything that decides numbers is in here; what only decides where and how fast (addresses, log levels) is not. Its
form in the log is that of `driftline.schemas.run.config_json`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from driftline.broker.topics import check_run_name
from driftline.errors import ConfigError, UsageError
from driftline.schemas.run.consistency import Consistency, consistency_problems
from driftline.schemas.run.data import DataConfig, data_problems
from driftline.schemas.run.local_work import LocalWork, local_work_problems
from driftline.schemas.run.schedule import Schedule, schedule_problems

TOP_SEED = 2**63 - 1
RETAIN = "all", "checkpoint"
MIN_TICK_S = 0.01
MAX_TICK_S = 3600
MIN_GONE_AFTER, MAX_GONE_AFTER = 2, 1_000_000


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
        consistency: how far training may drift from lock-step.
        schedule: of the learning rates, by version.
        local: what a worker does in one clock.
        data: that is leased to the workers, and how often it is used.
        workers: how many workers must be ready before version 1 can be made.
        steps: the run ends at this version; 0 leaves its end to the data's epochs, or to whoever stops it.
        seed: of data order and of everything random in workers.
        partitions: of the deltas, parameters and snapshots topics, P.
        rule: the optimizer.
        max_unsettled: contributions of one group that may be under way, K.
        tick_interval_s: seconds between reading a tick and writing the next.
        gone_after_ticks: a member is gone when so many ticks were read without its heartbeat.
        snapshot_every: servers write snapshots of every so many-th version; 0 for none.
        retain: ``all`` keeps every delta for ever; ``checkpoint`` deletes what the last checkpoint makes needless.
    """

    name: str
    consistency: Consistency = field(default_factory=Consistency)
    schedule: Schedule = field(default_factory=Schedule)
    local: LocalWork = field(default_factory=LocalWork)
    data: DataConfig = field(default_factory=DataConfig)
    workers: int
    steps: int
    seed: int = 0
    partitions: int = 4
    rule: RuleConfig
    max_unsettled: int = 2
    tick_interval_s: float = 0.25
    gone_after_ticks: int = 12
    snapshot_every: int = 100
    retain: str = "all"

    def is_last(self, version: int) -> bool:
        """Whether no version follows this one, whatever was used of the data."""
        return 0 < self.steps <= version

    @property
    def horizon(self) -> int:
        """The version at which the learning rates have fallen: the last one, or of a run by epochs the expected one.

        That is the number of clocks in which so many workers use the data. 0 if there is no end.
        """
        data = self.data
        if not self.expects_versions:
            return self.steps
        return -(-data.epochs * data.samples // (self.workers * data.batch_size * self.local.steps))

    @property
    def expects_versions(self) -> bool:
        """Whether the epochs say how many versions there will be, if nobody comes or goes."""
        return bool(not self.steps and self.data.epochs and self.data.batch_size and not self.local.is_boxed)

    def is_snapshot_point(self, version: int) -> bool:
        """Whether servers write snapshots of this version; version 0 was proposed with its own."""
        return self.snapshot_every > 0 and version > 0 and version % self.snapshot_every == 0

    @property
    def trims(self) -> bool:
        """Whether deltas that the last checkpoint makes needless are deleted."""
        return self.retain == "checkpoint"


def check(config: RunConfig) -> None:
    """Check every value.

    Raises:
        ConfigError: lists every problem found, each with the valid range.
    """
    problems = [
        *_check_int("workers", config.workers, 1, 10_000),
        *_check_int("steps", config.steps, 0, 2**53),
        *_check_int("seed", config.seed, 0, TOP_SEED),
        *_check_int("partitions", config.partitions, 1, 1_000),
        *_check_int("max_unsettled", config.max_unsettled, 1, 1_000),
        *_check_int("gone_after_ticks", config.gone_after_ticks, MIN_GONE_AFTER, MAX_GONE_AFTER),
        *_check_int("snapshot_every", config.snapshot_every, 0, 2**53),
    ]
    problems += _check_retain(config)
    if not (is_number(config.tick_interval_s) and MIN_TICK_S <= config.tick_interval_s <= MAX_TICK_S):
        problems.append(
            f"tick_interval_s: {config.tick_interval_s!r} is not a number of seconds from {MIN_TICK_S} to {MAX_TICK_S}"
        )
    problems += _check_name(config.name) + _check_rule(config.rule)
    problems += [f"consistency.{problem}" for problem in consistency_problems(config.consistency)]
    problems += [f"local.{problem}" for problem in local_work_problems(config.local)]
    problems += [f"data.{problem}" for problem in data_problems(config.data)]
    problems += [f"schedule.{problem}" for problem in schedule_problems(config.schedule)] or _check_decay(config)
    if problems:
        raise ConfigError(problems)


def _check_int(name: str, value: object, low: int, high: int) -> list[str]:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        return [f"{name}: {value!r} is not a whole number from {low} to {high}"]
    return []


def _check_retain(config: RunConfig) -> list[str]:
    if config.retain not in RETAIN:
        return [f"retain: {config.retain!r} is neither {RETAIN[0]!r} nor {RETAIN[1]!r}"]
    if config.retain == "checkpoint" and config.snapshot_every == 0:
        return [
            "retain: 'checkpoint' deletes what a checkpoint makes needless, and with snapshot_every 0 there is none"
        ]
    return []


def _check_decay(config: RunConfig) -> list[str]:
    if config.steps or config.expects_versions or config.schedule.decay == "none":
        return []
    decay = config.schedule.decay
    return [f"schedule.decay: {decay!r} falls to the last version, and which one that is, is not known; give steps"]


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
            if not is_number(value)
        ]
    return problems


def is_number(value: object) -> bool:
    """Say whether a value is a finite int or float, and no bool."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond float64
        return False
