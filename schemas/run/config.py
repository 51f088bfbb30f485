"""The frozen configuration of a run, as `RunStart` records it.

Everything that decides numbers is in here; what only decides where and how fast (addresses, log levels) is not. Its
form in the log, and the check of its values, are in `driftline.schemas.run.config_json`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from annotated_types import Interval, Len

from driftline.schemas.run.consistency import Consistency
from driftline.schemas.run.data import DataConfig
from driftline.schemas.run.local_work import LocalWork
from driftline.schemas.run.schedule import Schedule
from driftline.schemas.run.setting import Setting, Strict, Whole, one_of

RECOVERY = "Recovery"

Workers = Annotated[
    int, Interval(ge=1, le=10_000), Setting("Wait for N workers before version 1.", zero="zero workers compute nothing")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleConfig(Strict):
    """The update rule: ``name`` and, for each parameter group, its numbers (lr, momentum, betas …)."""

    name: Annotated[str, Len(1)]
    groups: tuple[Mapping[str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSettings(Strict):
    """What a person chooses of a run and the run keeps as it is: part of `RunConfig` and of `RunSettings`."""

    panel: ClassVar[str] = "Size and length"

    consistency: Consistency = field(default_factory=Consistency)
    schedule: Schedule = field(default_factory=Schedule)
    local: LocalWork = field(default_factory=LocalWork)
    workers: Workers = 3
    seed: Annotated[
        int, Interval(ge=0, le=2**63 - 1), Setting("Seed model, data order and everything else that is random.")
    ] = 0
    partitions: Annotated[
        int,
        Interval(ge=1, le=1_000),
        Setting(
            "Cut the topics that hold tensors into N partitions; at most N servers have work.",
            zero="zero partitions hold nothing",
        ),
    ] = 4
    snapshot_every: Annotated[
        Whole,
        Setting(
            "Write a snapshot of the state every N versions, where servers continue after a failure; 0 is never.",
            panel=RECOVERY,
        ),
    ] = 100
    retain: Annotated[
        str,
        one_of("all", "checkpoint"),
        Setting(
            "Keep deltas: all (every version can be proven), or checkpoint (only those since the last checkpoint; the "
            "disk stays flat).",
            panel=RECOVERY,
        ),
    ] = "all"
    gone_after_ticks: Annotated[
        int,
        Interval(ge=2, le=1_000_000),
        Setting(
            "Remove a worker that was silent for N ticks of 0.25 s. `driftline train` removes its own workers as soon "
            "as their processes end.",
            panel=RECOVERY,
            name="gone_after",
        ),
    ] = 12

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield fields that contradict others, each with the reason."""
        for name, part in (("consistency", self.consistency), ("schedule", self.schedule), ("local", self.local)):
            yield from ((f"{name}.{one}", why) for one, why in part.contradictions())
        if self.retain == "checkpoint" and self.snapshot_every == 0:
            yield "retain", "'checkpoint' keeps what follows the last checkpoint; with snapshot_every 0 there is none"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig(SharedSettings):
    """Settings of a run.

    Attributes:
        name: of the run, part of its topic names.
        data: that is leased to the workers, and how often it is used.
        steps: the run ends at this version; 0 if its data's epochs or a command end it.
        rule: the optimizer.
        max_unsettled: contributions of one group that may be under way, K.
        tick_interval_s: seconds between reading a tick and writing the next.
    """

    name: str
    data: DataConfig = field(default_factory=DataConfig)
    workers: Workers
    steps: Whole
    rule: RuleConfig
    max_unsettled: Annotated[int, Interval(ge=1, le=1_000)] = 2
    tick_interval_s: Annotated[float, Interval(ge=0.01, le=3600)] = 0.25

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
        """Whether the epochs say how many versions there will be, if no worker comes or goes."""
        return bool(not self.steps and self.data.epochs and self.data.batch_size and not self.local.is_boxed)

    def is_snapshot_point(self, version: int) -> bool:
        """Whether servers write snapshots of this version; version 0 was proposed with its own."""
        return self.snapshot_every > 0 and version > 0 and version % self.snapshot_every == 0

    @property
    def trims(self) -> bool:
        """Whether deltas that the last checkpoint makes needless are deleted."""
        return self.retain == "checkpoint"

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield fields that contradict others, each with the reason."""
        yield from SharedSettings.contradictions(self)
        yield from ((f"data.{one}", why) for one, why in self.data.contradictions())
        if not self.rule.groups:
            yield "rule.groups", "empty; at least one parameter group is needed"
        decay = self.schedule.decay
        if decay != "none" and not (self.steps or self.expects_versions or self.schedule.is_scripts):
            yield "schedule.decay", f"{decay!r} falls to the last version, which is not known here; give steps"
