"""What a worker does in one clock, as far as it decides numbers."""

import sys
from dataclasses import dataclass

MAX_LOCAL_STEPS = 1_000_000

MIN_CLOCK_S = 0.001
MAX_CLOCK_S = 300.0
"""Half of the time for which a worker waits for others by default: who keeps to its box keeps nobody waiting longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWork:
    """One clock of one worker.

    Attributes:
        clip_norm: largest 2-norm of a worker's own gradient, before the mean over workers; 0 does not clip.
        steps: H, optimizer steps that a worker makes by itself before it contributes. With 1 it contributes its
            gradient; with more, ``base - local``, and the run's rule is the outer one (DiLoCo: Douillard et al., 2023).
        clock_s: seconds that one clock lasts, the time box; 0 for none. A worker then reads as many batches as fit,
            at least one, and contributes the mean of their gradients; with ``steps`` above 1 it makes as many local
            steps as fit, at most that many. Its weight says how much it did.
    """

    clip_norm: float = 0.0
    steps: int = 1
    clock_s: float = 0.0

    @property
    def is_boxed(self) -> bool:
        """Whether time decides how many batches a clock has."""
        return self.clock_s > 0


def local_work_problems(one: LocalWork) -> list[str]:
    """Everything that is wrong, each with the valid range; empty when it can be used."""
    problems = []
    if not _is_finite(one.clip_norm) or one.clip_norm < 0:
        problems.append(f"clip_norm: {one.clip_norm!r} is not a finite number, 0 or more")
    if isinstance(one.steps, bool) or not isinstance(one.steps, int) or not 1 <= one.steps <= MAX_LOCAL_STEPS:
        problems.append(f"steps: {one.steps!r} is not a whole number from 1 to {MAX_LOCAL_STEPS}")
    if not _is_finite(one.clock_s) or not (one.clock_s == 0 or MIN_CLOCK_S <= one.clock_s <= MAX_CLOCK_S):
        problems.append(
            f"clock_s: {one.clock_s!r} is neither 0 nor a number of seconds from {MIN_CLOCK_S:g} to {MAX_CLOCK_S:g}"
        )
    return problems


def _is_finite(value: object) -> bool:
    most = sys.float_info.max
    return isinstance(value, int | float) and not isinstance(value, bool) and -most <= value <= most
