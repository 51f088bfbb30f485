"""What a worker does in one clock, as far as it decides numbers."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Interval

from driftline.schemas.run.setting import Kind, Setting, Strict

MIN_CLOCK_S = 0.001
MAX_CLOCK_S = 300.0
"""Half of the time for which a worker waits for others by default: a worker in its time box makes none give up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWork(Strict):
    """One clock of one worker.

    With one step a worker contributes its gradient. With more it contributes ``base - local``, and the run's rule is
    the outer one (DiLoCo: Douillard et al., 2023). In a time box it reads as many batches as fit, at least one, and
    contributes the mean of their gradients; its weight says how much it did.
    """

    panel: ClassVar[str] = "Local work"

    clip_norm: Annotated[
        float,
        Interval(ge=0, le=1e9),
        Setting("Clip each worker's own gradient to this 2-norm, before the mean over workers; 0 does not clip."),
    ] = 0.0
    steps: Annotated[
        int,
        Interval(ge=1, le=1_000_000),
        Setting(
            "Make N steps of the task's optimizer in each worker before it contributes (DiLoCo).",
            name="local_steps",
            zero="zero local steps compute nothing",
        ),
    ] = 1
    clock_s: Annotated[
        float,
        Interval(ge=0, le=MAX_CLOCK_S),
        Setting(
            "Give each clock a time box, for example 2s or 500ms: a worker reads as many batches as fit, and its "
            "contribution counts for all of their samples; 0 is one batch a clock.",
            name="clock",
            kind=Kind.DURATION,
            expected=f"a duration from {MIN_CLOCK_S * 1000:g}ms to {MAX_CLOCK_S:g}s, like 2s or 500ms, or 0 for none",
        ),
    ] = 0.0

    @property
    def is_boxed(self) -> bool:
        """Whether time decides how many batches a clock has."""
        return self.clock_s > 0

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield a time box that is too short to be one."""
        if 0 < self.clock_s < MIN_CLOCK_S:
            yield "clock_s", f"{self.clock_s:g} s is shorter than {MIN_CLOCK_S:g} s; 0 is no time box"
