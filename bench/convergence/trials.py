"""What is run: tasks, ways of training, speeds and seeds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from driftline.config.run_settings import RunSettings
from driftline.schemas.run.consistency import Consistency
from driftline.schemas.run.local_work import LocalWork

WORKERS = tuple(f"worker-{number}" for number in range(1, 5))
SLOW_WORKER = WORKERS[-1]
SLOWNESS = 5
PAUSE_S = 0.06
"""Seconds that a gradient takes on top of computing it; else the cores that workers share here would be measured."""

MOST_GRADIENT_S = 0.1
"""A run in which a fast worker's gradients took longer in the mean, because the machine was busy, is made again."""

TRIES = 3

SECONDS = 10.0
"""Of training a run."""

MARKED_VERSIONS = (25, 50, 100, 200)
MARKED_SAMPLES = (3_000, 6_000, 12_000)
GRID_S = 0.5
"""Where a run is measured: at so many versions, at so many samples, and all so many seconds."""

SEEDS = range(5)
PARTITIONS = 1
CLOCK_S = 0.2
"""The time box where there is one: about three batches of a fast worker, less than one of a slow one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A task, and where its runs are looked at.

    Attributes:
        settings: of the task, on top of its defaults.
        rate: the learning rate that ways of training multiply.
        target: test loss whose time is measured.
    """

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    rate: float
    target: float


STUDIES: Mapping[str, Study] = MappingProxyType(
    {
        "digits": Study(name="digits", rate=5e-3, target=0.5),
        "fashion": Study(name="fashion", settings={"hidden": "32"}, rate=0.05, target=0.8),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way of training.

    Attributes:
        name: in the results.
        options: as the command line has them, for the tables.
        note: what else is different, likewise.
        rate: factor of the task's learning rate.
        only_slow: whether it makes sense only beside a slow worker.
        only: the tasks it is tried on; all if empty.
    """

    name: str
    options: str
    note: str = ""
    consistency: Consistency
    local: LocalWork = field(default_factory=LocalWork)
    rate: float = 1.0
    only_slow: bool = False
    only: tuple[str, ...] = ()


_INVERSE = Consistency(mode="async", buffer=1, weighting="inverse")
_PLAIN = Consistency(mode="async", buffer=1)

WAYS: tuple[Way, ...] = (
    Way(name="sync", options="--mode sync", consistency=Consistency()),
    *(
        Way(
            name=f"ssp {bound}",
            options=f"--mode ssp --staleness {bound}",
            consistency=Consistency(mode="ssp", staleness=bound),
        )
        for bound in (1, 2, 4)
    ),
    Way(
        name="ssp 4, drop 1",
        options="--mode ssp --staleness 4 --drop-slowest 1",
        consistency=Consistency(mode="ssp", staleness=4, drop_slowest=1),
        only_slow=True,
    ),
    Way(
        name="sync, clock",
        options=f"--mode sync --clock {CLOCK_S:g}s",
        consistency=Consistency(),
        local=LocalWork(clock_s=CLOCK_S),
    ),
    Way(
        name="buffered 2",
        options="--mode buffered --buffer 2",
        consistency=Consistency(mode="buffered", buffer=2, weighting="inverse"),
    ),
    Way(name="async", options="--mode async", consistency=_INVERSE),
    Way(name="async, none", options="--mode async --weighting none", consistency=_PLAIN),
    Way(
        name="async, none, rate/4",
        options="--mode async --weighting none",
        note="a quarter of the rate",
        consistency=_PLAIN,
        rate=0.25,
    ),
)
"""What the tables compare."""

SMALLER = 16
SMALL_WAYS: tuple[Way, ...] = tuple(
    Way(
        name=f"{name}, rate/{SMALLER}",
        options=options,
        note="a sixteenth of the rate",
        consistency=consistency,
        rate=1 / SMALLER,
        only=("fashion",),
    )
    for name, options, consistency in (
        ("ssp 2", "--mode ssp --staleness 2", Consistency(mode="ssp", staleness=2)),
        ("async", "--mode async", _INVERSE),
        ("async, none", "--mode async --weighting none", _PLAIN),
    )
)
"""The same at a rate that is small enough for work that is late."""

Key: TypeAlias = tuple[str, str, int, int]
"""(task, way, slowness of the slow worker, seed)"""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run."""

    study: Study
    way: Way
    slowness: int
    seed: int

    @property
    def key(self) -> Key:
        """What tells it from the others."""
        return self.study.name, self.way.name, self.slowness, self.seed

    def pause_s(self, worker: str) -> float:
        """Return what a gradient of a worker takes on top of computing it, in seconds."""
        return PAUSE_S * (self.slowness if worker == SLOW_WORKER else 1)

    @property
    def task_settings(self) -> dict[str, str]:
        """The task's settings, as text."""
        return {**self.study.settings, "learning_rate": str(self.study.rate * self.way.rate)}

    def run_settings(self, run: str) -> RunSettings:
        """Return the settings of the run, which has no end of its own: the trial stops it."""
        return RunSettings(
            run=run,
            workers=len(WORKERS),
            steps=0,
            consistency=self.way.consistency,
            local=self.way.local,
            seed=self.seed,
            partitions=PARTITIONS,
        )


def trials() -> Iterator[Trial]:
    """Yield everything that is run, seed by seed: whatever else the machine does then strikes all ways alike."""
    for seed in SEEDS:
        for study in STUDIES.values():
            for slowness in (1, SLOWNESS):
                for way in WAYS:
                    if slowness > 1 or not way.only_slow:
                        yield Trial(study, way, slowness, seed)
            for way in SMALL_WAYS:
                if study.name in way.only:
                    yield Trial(study, way, 1, seed)
