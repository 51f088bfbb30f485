"""Consistency as data: how far training may drift from lock-step, and what stale work counts for.

Two ways to close a version. By the **clock**: when every group has spent enough clocks (bulk-synchronous for s = 0,
stale-synchronous parallel for s > 0: Ho et al., NeurIPS 2013). By **count**: when k contributions wait, whoever made
them (buffered asynchronous, FedBuff: Nguyen et al., AISTATS 2022; plain asynchronous for k = 1).
"""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

Mode: TypeAlias = Literal["sync", "ssp", "buffered", "async"]
Weighting: TypeAlias = Literal["none", "inverse", "polynomial"]
OnStale: TypeAlias = Literal["reject", "damp"]

MODES: tuple[str, ...] = get_args(Mode)
WEIGHTINGS: tuple[str, ...] = get_args(Weighting)
ON_STALE: tuple[str, ...] = get_args(OnStale)
MAX_STALENESS = 1_000_000
MAX_COUNT = 10_000
LEAST_FACTOR = 1e-100
"""What polynomial weighting leaves of the stalest contribution: never 0, because shares are divided by their sum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consistency:
    """The bounds of one run.

    Attributes:
        mode: ``sync`` and ``ssp`` close by the clock, ``buffered`` and ``async`` by count.
        staleness: s, versions by which the fastest group may be ahead of the slowest; 0 unless ``ssp``.
        drop_slowest: b, the clock rule does not wait for the b slowest groups; 0 unless ``ssp`` or ``sync``.
        buffer: k, contributions that close a version; at least 1 in ``buffered``, 1 in ``async``, 0 otherwise.
        ahead: clocks that a group may spend on one base when closing by count; 0 is unbounded.
        weighting: factor w(τ) of a contribution that is τ versions stale: 1, 1/(1+τ), or (1+τ)^-exponent.
        exponent: of the polynomial weighting.
        max_staleness: versions; contributions staler than this are ``on_stale``. -1 is no limit beyond the mode's own.
        on_stale: refuse them, or use them with the factor of ``weighting`` (``none`` counts as ``inverse`` there).
        max_age_s: seconds since parameters arrived beyond which a worker does not compute on them while newer versions
            exist; 0 is no limit.
    """

    mode: str = "sync"
    staleness: int = 0
    drop_slowest: int = 0
    buffer: int = 0
    ahead: int = 0
    weighting: str = "none"
    exponent: float = 0.5
    max_staleness: int = -1
    on_stale: str = "reject"
    max_age_s: float = 0.0

    @property
    def closes_by_clock(self) -> bool:
        """Whether versions close by the clock rule, and not by count."""
        return self.mode in ("sync", "ssp")

    @property
    def tolerated(self) -> int | None:
        """Staleness beyond which a contribution is ``on_stale``, in versions; None for no limit."""
        limits = [2 * self.staleness] if self.closes_by_clock else []
        if self.max_staleness >= 0:
            limits.append(self.max_staleness)
        return min(limits, default=None)

    def factor(self, staleness: int) -> float:
        """Return w(τ) for a contribution that is used."""
        limit = self.tolerated
        late = limit is not None and staleness > limit
        weighting = "inverse" if late and self.weighting == "none" else self.weighting
        if weighting == "inverse":
            return 1.0 / (1.0 + staleness)
        if weighting == "polynomial":
            return max(LEAST_FACTOR, float((1.0 + staleness) ** -self.exponent))
        return 1.0


def consistency_problems(one: Consistency) -> list[str]:
    """Everything that is wrong with the bounds, each with the valid range; empty when they can be used."""
    problems = [
        *_one_of("mode", one.mode, MODES),
        *_one_of("weighting", one.weighting, WEIGHTINGS),
        *_one_of("on_stale", one.on_stale, ON_STALE),
        *_whole("staleness", one.staleness, 0, MAX_STALENESS),
        *_whole("drop_slowest", one.drop_slowest, 0, MAX_COUNT),
        *_whole("buffer", one.buffer, 0, MAX_COUNT),
        *_whole("ahead", one.ahead, 0, MAX_COUNT),
        *_whole("max_staleness", one.max_staleness, -1, MAX_STALENESS),
        *_number("exponent", one.exponent, 0.0, 100.0),
        *_number("max_age_s", one.max_age_s, 0.0, 1e9),
    ]
    return problems or _contradictions(one)


def _contradictions(one: Consistency) -> list[str]:
    problems = []
    if one.mode != "ssp" and one.staleness:
        problems.append(f"staleness: {one.staleness} contradicts mode {one.mode}; only ssp has a staleness above 0")
    if not one.closes_by_clock and one.drop_slowest:
        problems.append(f"drop_slowest: {one.drop_slowest} contradicts mode {one.mode}, which waits for nobody")
    if one.closes_by_clock and (one.buffer or one.ahead):
        problems.append(
            f"buffer and ahead: {one.buffer} and {one.ahead} contradict mode {one.mode}, which counts clocks"
        )
    if one.mode == "buffered" and one.buffer < 1:
        problems.append("buffer: mode buffered needs the number of contributions that close a version, 1 or more")
    if one.mode == "async" and one.buffer != 1:
        problems.append(f"buffer: {one.buffer} contradicts mode async, which closes on every contribution (1)")
    return problems


def _one_of(name: str, value: object, known: tuple[str, ...]) -> list[str]:
    return [] if value in known else [f"{name}: {value!r} is not one of {', '.join(known)}"]


def _whole(name: str, value: object, low: int, high: int) -> list[str]:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        return [f"{name}: {value!r} is not a whole number from {low} to {high}"]
    return []


def _number(name: str, value: object, low: float, high: float) -> list[str]:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return [f"{name}: {value!r} is not a finite number"]
    return [] if low <= value <= high else [f"{name}: {value!r} is not a number from {low:g} to {high:g}"]
