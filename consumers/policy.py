"""The clock rule: when a version closes, what goes into it, and when a group may start its next clock.

Pure functions over paces. With s = 0 this is lock-step (bulk-synchronous); with s > 0 stale-synchronous parallel (Ho
et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", NeurIPS 2013).

    pace(g)    entry pace + clocks spent (settled | pending whole) + raises; settled(g) is its ledger-visible part
    low(x)     the smallest pace of a live group
    CLOSE      version v = head + 1 when max pace ≥ v and low(pace) ≥ v - s: take everything pending
    START      next clock when pace - low(settled) ≤ s, published base ≥ pace - s, unsettled < K
    REMOVAL    raise every live pace by d = max(0, head + (1 if anything is pending) - max pace)
"""

from collections.abc import Sequence

import numpy as np


def may_close(head: int, paces: Sequence[int], staleness: int) -> bool:
    """Whether version ``head + 1`` may be made, given the paces of all live groups."""
    return bool(paces) and max(paces) >= head + 1 and min(paces) >= head + 1 - staleness


def may_start(*, pace: int, low_settled: int, published: int, unsettled: int, staleness: int, limit: int) -> bool:
    """Whether a group may compute its next clock on the newest published version."""
    return pace - low_settled <= staleness and published >= pace - staleness and unsettled < limit


def is_too_stale(offer_staleness: int, staleness: int) -> bool:
    """Whether a contribution's base lies more than 2s versions behind the head."""
    return offer_staleness > 2 * staleness


def raise_after_removal(head: int, paces: Sequence[int], *, pending: bool) -> int:
    """By how much every remaining pace rises when a group is removed, so that the head cannot stay out of reach."""
    if not paces:
        return 0
    return max(0, head + (1 if pending else 0) - max(paces))


def coefficients(weights: Sequence[float]) -> list[float]:
    """Coefficient of each delta, nᵢ / Σ n, rounded once to fp32; zeros when nothing has weight."""
    total = float(sum(weights))
    if total <= 0:
        return [0.0 for _ in weights]
    return [float(np.float32(weight / total)) for weight in weights]
