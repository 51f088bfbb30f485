"""What a contribution may weigh, and what it counts for in the version that uses it: pure arithmetic of the ledger."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from driftline.schemas.records import Use

LEAST_WEIGHT: Final = 2.0**-53
MOST_WEIGHT: Final = 2.0**53
"""Weights of contributions, beside 0: sums of them, and what damping makes of them, stay far inside float64."""

MOST_RATE: Final = 2.0**53
"""Of learning rates that scripts set: their weighted sums stay far inside float64."""


def weight_problem(weight: float) -> str:
    """Return why a contribution cannot count for ``weight``, or nothing."""
    if weight == 0.0 or LEAST_WEIGHT <= weight <= MOST_WEIGHT:
        return ""
    return f"its weight is {weight!r}, neither 0 nor a number from {LEAST_WEIGHT:.0e} to {MOST_WEIGHT:.0e}"


def rates_problem(rates: Sequence[float], groups: int) -> str:
    """Return why a contribution cannot ask for these learning rates, or nothing; ``groups`` is how many it takes."""
    if len(rates) != groups:
        return f"it brings {len(rates)} learning rates for {groups} parameter groups"
    wrong = [rate for rate in rates if not 0.0 <= rate <= MOST_RATE]
    return f"its learning rate {wrong[0]!r} is no number from 0 to {MOST_RATE:.0e}" if wrong else ""


def coefficients(weights: Sequence[float], factors: Sequence[float], *, damps_rates: bool) -> tuple[list[float], float]:
    """Return the fp32 coefficient of each delta, and rho = Σ w n / Σ n.

    Rules whose step scales with the gradient (SGD) are damped by the coefficients w n / Σ n. Rules that divide by the
    gradient's own size (Adam) get w n / Σ w n, and rho damps their rates instead.

    Args:
        weights: n, the loss denominators, at least 0.
        factors: w(τ), above 0 and at most 1.
        damps_rates: whether the rule is one of the second kind.
    """
    total = float(sum(weights))
    if total <= 0.0:
        return [0.0 for _ in weights], 1.0
    weighted = [factor * weight for factor, weight in zip(factors, weights, strict=True)]
    share = float(sum(weighted))
    divisor = share if damps_rates else total
    return [float(np.float32(one / divisor)) for one in weighted], min(1.0, share / total)


def mean_rates(uses: Sequence[Use], groups: int) -> tuple[float, ...]:
    """Return the learning rates that a version's contributions ask for: Σ n r / Σ n, one a parameter group.

    In float64, like every rate in the ledger, in canonical order and from the first one, r₁ + Σ n (r - r₁) / Σ n, and
    never beyond the least or the most that was asked for: what all ask for alike is what they get, to the bit. The
    weights n alone count: how stale a gradient is damps the gradient (see `coefficients`), not what a script wants.

    Args:
        uses: what the version settles, in canonical order; each delta with ``groups`` finite rates.
        groups: how many parameter groups there are.

    Returns:
        Zeros if no contribution counts: then no tensor is stepped.
    """
    counting = [use for use in uses if use.kind == "delta" and use.weight > 0.0]
    weights = [use.weight for use in counting]
    return tuple(_mean([use.learning_rates[group] for use in counting], weights) for group in range(groups))


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    if not values:
        return 0.0
    first, total, moved = values[0], 0.0, 0.0
    for value, weight in zip(values, weights, strict=True):
        total += weight
        moved += weight * (value - first)
    return min(max(first + moved / total, min(values)), max(values))


def buffers_of(uses: Sequence[Use]) -> int:
    """Return the index of the contribution whose buffers the next version takes over; -1 when none can be used.

    The least stale one that counts for anything; of equals the first in canonical order, by worker name and clock.
    Averaging would be wrong for counters and masks, and one worker's statistics belong together.

    Args:
        uses: what the version settles, in canonical order.
    """
    counting = [index for index, use in enumerate(uses) if use.kind == "delta" and use.coefficient != 0.0]
    return min(counting, key=lambda index: uses[index].staleness, default=-1)
