"""What a person wants a run to be, before its model and optimizer are known."""

from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Interval

from driftline.errors import UsageError
from driftline.schemas.run.config import SharedSettings
from driftline.schemas.run.local_work import LocalWork
from driftline.schemas.run.setting import MAX_WHOLE, Setting, Whole

LOCAL = LocalWork.panel

TASK_SETS_NO_RATES = (
    "'script' is for scripts with a loop of their own; the rates of a task follow from the version: give warmup, decay "
    "and final_rate, or leave them out"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings(SharedSettings):
    """Settings of a run as a person chose them.

    Attributes:
        chosen: which of them were chosen, by their keyword arguments; a run that exists decides the others. None is
            all of them.
    """

    run: Annotated[str, Setting("Name the run.", panel="Run and task", name="name", option="--run", example='"my-run"')]
    steps: Annotated[
        int | None,
        Interval(ge=1, le=MAX_WHOLE),
        Setting(
            "End at version N.",
            inferred="200 for a task, none for a script, unless --epochs is given",
            example="200",
            zero="zero steps train nothing",
        ),
    ] = None
    epochs: Annotated[
        int | None,
        Interval(ge=1, le=1_000_000),
        Setting(
            "End after N passes over the data, instead of --steps.",
            inferred="--steps decides",
            example="5",
            zero="zero passes train nothing",
        ),
    ] = None
    outer_lr: Annotated[
        float,
        Interval(ge=0, le=1e3),
        Setting("With local steps: set the learning rate of the servers' SGD with Nesterov momentum.", panel=LOCAL),
    ] = 0.7
    outer_momentum: Annotated[
        float, Interval(ge=0, le=1), Setting("With local steps: set the momentum of the servers' SGD.", panel=LOCAL)
    ] = 0.9
    samples: Annotated[Whole, Setting("Lease N samples, which a script reads by a Sampler.", script=True)] = 0
    batch_size: Annotated[Whole, Setting("Read N samples in a usual step of a script.", script=True)] = 0
    block: Annotated[Whole, Setting("Lease N samples at a time; by default eight batches.", script=True)] = 0
    chosen: frozenset[str] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            raise UsageError("give either steps (versions) or epochs (passes over the data), not both")
