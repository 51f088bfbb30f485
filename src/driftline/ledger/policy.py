"""When a version closes, when a group may start its next clock, and what a late contribution counts for.

Pure functions. By the clock (s = 0 is bulk-synchronous, s > 0 stale-synchronous parallel):

    pace(g)    entry pace + clocks spent (settled | pending whole) + raises; settled(g) is its ledger-visible part
    low(x)     the (min(b, live - 1) + 1)-th smallest, b = drop_slowest: the slowest group that is waited for
    CLOSE      version v = head + 1 when max pace ≥ v and low(pace) ≥ v - s: take everything pending; then, if b > 0,
               raise groups that are below v - s - 1 to v - s - 1
    START      next clock when pace - low(settled) ≤ s, published base ≥ pace - s, unsettled < K
    REMOVAL    raise every live pace by d = max(0, head + (1 if anything is pending) - max pace)

By count (buffered, async):

    CLOSE      when k contributions are pending, or every live group is at its bound
    START      next clock when unsettled < K and, if `ahead` is set, own clocks since base < ahead
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from driftline.schemas.records import Use
from driftline.schemas.run.consistency import Consistency

LEAST_WEIGHT: Final = 2.0**-53
MOST_WEIGHT: Final = 2.0**53
"""Weights of contributions, beside 0: sums of them, and what damping makes of them, stay far inside float64."""

MOST_RATE: Final = 2.0**53
"""Of learning rates that scripts set: their weighted sums stay far inside float64."""


# -- when ------------------------------------------------------------------------------------------------------------


def low(paces: Sequence[int], drop_slowest: int) -> int:
    """Return the pace of the slowest group that is waited for; there is at least one group."""
    return sorted(paces)[min(drop_slowest, len(paces) - 1)]


def clock_closes(head: int, paces: Sequence[int], bounds: Consistency) -> bool:
    """Whether the clock rule makes version ``head + 1``, given the paces of all live groups."""
    if not paces:
        return False
    return max(paces) >= head + 1 and low(paces, bounds.drop_slowest) >= head + 1 - bounds.staleness


def count_closes(pending: Sequence[int], at_bound: Iterable[bool], bounds: Consistency) -> bool:
    """Whether counting makes the next version, given pending contributions and whether it is stuck, a live group."""
    waiting = sum(pending)
    return waiting >= bounds.buffer or (waiting > 0 and all(at_bound))


def clock_starts(
    *, pace: int, settled: Sequence[int], published: int, unsettled: int, bounds: Consistency, k: int
) -> bool:
    """Whether the clock rule lets a group start its next clock; ``settled`` holds the paces of all live groups."""
    close_enough = pace - low(settled, bounds.drop_slowest) <= bounds.staleness
    return close_enough and published >= pace - bounds.staleness and unsettled < k


def count_starts(*, since_base: int, unsettled: int, bounds: Consistency, k: int) -> bool:
    """Whether a group may start its next clock when versions close by count.

    Args:
        since_base: clocks that it has spent on the newest published version.
        unsettled: its clocks under way.
        bounds: of the run.
        k: limit of ``unsettled``.
    """
    return unsettled < k and (bounds.ahead == 0 or since_base < bounds.ahead)


def too_stale(staleness: int, bounds: Consistency) -> bool:
    """Whether a contribution this many versions stale is refused."""
    return bounds.on_stale == "reject" and bounds.tolerated is not None and staleness > bounds.tolerated


def raise_after_removal(head: int, paces: Sequence[int], *, pending: bool) -> int:
    """By how much every remaining pace rises when a group is removed, so that the head cannot stay out of reach."""
    if not paces:
        return 0
    return max(0, head + (1 if pending else 0) - max(paces))


def floor_of_slowest(version: int, bounds: Consistency) -> int | None:
    """Pace to which slower groups are raised after ``version`` has closed; None if the run drops none."""
    return version - bounds.staleness - 1 if bounds.drop_slowest else None


# -- how much ---------------------------------------------------------------------------------------------------------


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
