"""What a worker does in one clock, as far as it decides numbers."""

import math
from dataclasses import dataclass

MAX_LOCAL_STEPS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWork:
    """One clock of one worker.

    Attributes:
        clip_norm: largest 2-norm of a worker's own gradient, before the mean over workers; 0 does not clip.
        steps: H, optimizer steps that a worker makes by itself before it contributes. With 1 it contributes its
            gradient; with more, ``base - local``, and the run's rule is the outer one (DiLoCo: Douillard et al., 2023).
    """

    clip_norm: float = 0.0
    steps: int = 1


def local_work_problems(one: LocalWork) -> list[str]:
    """Everything that is wrong, each with the valid range; empty when it can be used."""
    problems = []
    number = isinstance(one.clip_norm, int | float) and not isinstance(one.clip_norm, bool)
    if not number or not math.isfinite(one.clip_norm) or one.clip_norm < 0:
        problems.append(f"clip_norm: {one.clip_norm!r} is not a finite number, 0 or more")
    if isinstance(one.steps, bool) or not isinstance(one.steps, int) or not 1 <= one.steps <= MAX_LOCAL_STEPS:
        problems.append(f"steps: {one.steps!r} is not a whole number from 1 to {MAX_LOCAL_STEPS}")
    return problems
