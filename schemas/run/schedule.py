"""Learning rates: those of a version depend on its number alone, or on what its contributions ask for.

Never on how many workers there are.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Interval

from driftline.schemas.run.setting import Setting, Strict, Whole, one_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule(Strict):
    """Factor of every parameter group's learning rate, by version. Cosine: Loshchilov & Hutter, ICLR 2017."""

    panel: ClassVar[str] = "Learning rates"

    warmup: Annotated[Whole, Setting("Raise learning rates linearly to their full size over N versions.")] = 0
    decay: Annotated[
        str,
        one_of("none", "linear", "cosine"),
        Setting("Lower learning rates from the end of the warm-up to the last version: none, linear or cosine."),
    ] = "none"
    final: Annotated[
        float,
        Interval(ge=0, le=1),
        Setting("Lower learning rates with --decay to this share of their size.", name="final_rate"),
    ] = 0.0
    set_by: Annotated[
        str,
        one_of("run", "script"),
        Setting(
            "Take learning rates from: run (--warmup, --decay and --final-rate), or script (each script's scheduler; a "
            "version has their weighted mean).",
            name="schedule",
        ),
    ] = "run"

    @property
    def is_scripts(self) -> bool:
        """Whether contributions bring the rates."""
        return self.set_by == "script"

    def factor(self, version: int, last: int) -> float:
        """Return the factor for making ``version`` (from 1) in a run that ends at version ``last``."""
        if version <= self.warmup:
            return version / self.warmup
        if self.decay == "none" or last <= self.warmup:
            return 1.0
        done = min(1.0, (version - self.warmup) / (last - self.warmup))
        left = 1.0 - done if self.decay == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
        return self.final + (1.0 - self.final) * left

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield fields that change nothing, each with the reason."""
        usual = Schedule()
        for name in ("warmup", "decay", "final") if self.is_scripts else ():
            if getattr(self, name) != getattr(usual, name):
                yield (
                    name,
                    (
                        f"{getattr(self, name)!r} changes nothing while scripts set the learning rates; "
                        f"leave it out, or let the run set them"
                    ),
                )
