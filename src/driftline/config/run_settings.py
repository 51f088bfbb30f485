"""What a worker wants the run to be: the settings that a person chooses, before model and optimizer are known."""

from dataclasses import dataclass, field

from driftline.errors import UsageError
from driftline.rules import with_defaults
from driftline.schemas.run.config import RuleConfig, RunConfig, check
from driftline.schemas.run.consistency import Consistency
from driftline.schemas.run.data import DataConfig
from driftline.schemas.run.local_work import LocalWork
from driftline.schemas.run.schedule import Schedule

BATCHES_A_BLOCK = 8
"""Times the local steps of a clock: few enough that workers end together, many enough that a lease is rare."""

OUTER_LR = 0.7
OUTER_MOMENTUM = 0.9
"""What DiLoCo (Douillard et al., 2023) found to work."""

TASK_SETS_NO_RATES = (
    "'script' is for scripts with a loop of their own; the rates of a task follow from the version: say warmup, decay "
    "and final_rate, or leave them alone"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Settings of a run as chosen by a person.

    Attributes:
        run: the run's name.
        workers: how many workers must be ready before version 1.
        steps: the version at which the run ends; None with ``epochs``.
        epochs: passes over the data instead of steps.
        consistency: how far training may drift from lock-step.
        schedule: of the learning rates.
        local: what a worker does in one clock.
        samples: of the data of a script that reads it by a `Sampler`; a task brings its own.
        batch_size: of the same.
        block: how many of them are leased at a time; 0 is `BATCHES_A_BLOCK` batches.
        outer_lr: learning rate of the outer rule, SGD with Nesterov momentum; used with more than one local step.
        outer_momentum: of the outer rule.
        seed: of model, data order and everything random.
        partitions: of the sharded topics.
        snapshot_every: versions between two snapshots; 0 for none.
        retain: ``all`` deltas, or only those behind the last ``checkpoint``.
        gone_after_ticks: a worker is removed when so many ticks were read without its heartbeat.
        chosen: which of them somebody chose, by the names of the options; a run that exists decides the others. None
            is all of them.
    """

    run: str
    workers: int = 3
    steps: int | None = None
    epochs: int | None = None
    consistency: Consistency = field(default_factory=Consistency)
    schedule: Schedule = field(default_factory=Schedule)
    local: LocalWork = field(default_factory=LocalWork)
    samples: int = 0
    batch_size: int = 0
    block: int = 0
    outer_lr: float = OUTER_LR
    outer_momentum: float = OUTER_MOMENTUM
    seed: int = 0
    partitions: int = 4
    snapshot_every: int = 100
    retain: str = "all"
    gone_after_ticks: int = 12
    chosen: frozenset[str] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            raise UsageError(
                "say how long to train: either steps (versions) or epochs (passes over the data), not both"
            )

    def outer_rule(self) -> RuleConfig:
        """Return the rule that the servers apply to what comes of several local steps."""
        numbers = {"lr": self.outer_lr, "momentum": self.outer_momentum, "nesterov": float(self.outer_momentum > 0)}
        return with_defaults(RuleConfig(name="sgd", groups=(numbers,)))

    def freeze(self, rule: RuleConfig, *, samples: int, batch_size: int) -> RunConfig:
        """Return the configuration that `RunStart` records.

        Args:
            rule: of the optimizer.
            samples: of the training data; 0 leases none.
            batch_size: of one batch.

        Raises:
            ConfigError: lists every setting that is out of range.
        """
        config = RunConfig(
            name=self.run,
            consistency=self.consistency,
            schedule=self.schedule,
            local=self.local,
            data=self._data(samples, batch_size),
            workers=self.workers,
            steps=self.steps or 0,
            seed=self.seed,
            partitions=self.partitions,
            snapshot_every=self.snapshot_every,
            retain=self.retain,
            gone_after_ticks=self.gone_after_ticks,
            rule=rule,
        )
        check(config)
        return config

    def _data(self, samples: int, batch_size: int) -> DataConfig:
        usual = BATCHES_A_BLOCK * max(1, batch_size) * max(1, self.local.steps) if samples else 0
        block = self.block or usual
        return DataConfig(samples=samples, batch_size=batch_size, block=block, epochs=self.epochs or 0)
