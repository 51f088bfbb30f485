"""Learning rates: those of a version depend on its number alone, or on what its contributions ask for.

Never on how many workers there are.
"""

import math
from dataclasses import dataclass

DECAYS = ("none", "linear", "cosine")
SET_BY = ("run", "script")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Factor of every parameter group's learning rate.

    Attributes:
        warmup: versions over which the factor rises linearly from 1/warmup to 1.
        decay: how it falls from there to the last version: not at all, linearly, or along half a cosine (Loshchilov &
            Hutter, "SGDR", ICLR 2017, without restarts).
        final: the factor at the last version.
        set_by: ``run``: the rates are a function of the version, this one. ``script``: each contribution brings those
            that its script had set, and a version has their weighted mean; then there is no factor.
    """

    warmup: int = 0
    decay: str = "none"
    final: float = 0.0
    set_by: str = "run"

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


def schedule_problems(one: Schedule) -> list[str]:
    """Everything that is wrong with a schedule, each with the valid range; empty when it can be used."""
    problems = []
    if isinstance(one.warmup, bool) or not isinstance(one.warmup, int) or not 0 <= one.warmup <= 2**53:
        problems.append(f"warmup: {one.warmup!r} is not a whole number of versions, 0 or more")
    if one.decay not in DECAYS:
        problems.append(f"decay: {one.decay!r} is not one of {', '.join(DECAYS)}")
    if isinstance(one.final, bool) or not isinstance(one.final, int | float) or not 0.0 <= one.final <= 1.0:
        problems.append(f"final: {one.final!r} is not a number from 0 to 1")
    if one.set_by not in SET_BY:
        problems.append(f"set_by: {one.set_by!r} is not one of {', '.join(SET_BY)}")
    return problems or _idle(one)


def _idle(one: Schedule) -> list[str]:
    """Refuse what would change nothing."""
    usual = Schedule()
    return [
        f"{name}: {getattr(one, name)!r} changes nothing while scripts set the learning rates; leave it out, or let "
        f"the run set them"
        for name in ("warmup", "decay", "final")
        if one.is_scripts and getattr(one, name) != getattr(usual, name)
    ]
