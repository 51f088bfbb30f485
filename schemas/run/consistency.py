"""Consistency as data: how far training may drift from lock-step, and how much stale work counts.

There are two ways to close a version. By the **clock**: when every group has spent enough clocks (bulk-synchronous for
s = 0, stale-synchronous parallel for s > 0: Ho et al., NeurIPS 2013). By **count**: when k contributions wait, from any
groups (buffered asynchronous, FedBuff: Nguyen et al., AISTATS 2022; plain asynchronous for k = 1).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import Interval

from driftline.schemas.run.setting import Setting, Strict, one_of

MODES = ("sync", "ssp", "buffered", "async")
MAX_STALENESS = 1_000_000
MAX_COUNT = 10_000
LEAST_FACTOR = 1e-100
"""What polynomial weighting leaves of the stalest contribution: never 0, because shares are divided by their sum."""

Count = Annotated[int, Interval(ge=0, le=MAX_COUNT)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Consistency(Strict):
    """The bounds of one run. Staleness and versions are counted, ages are seconds."""

    panel: ClassVar[str] = "Consistency"

    mode: Annotated[
        str,
        one_of(*MODES),
        Setting(
            "Let workers drift apart: sync (not at all), ssp (by up to --staleness versions), buffered (a version for "
            "every --buffer contributions) or async (a version for each contribution).",
            default="sync",
            inferred="inferred from the other bounds, sync without any",
        ),
    ] = "sync"
    staleness: Annotated[
        int,
        Interval(ge=0, le=MAX_STALENESS),
        Setting(
            "Mode ssp: let the fastest worker be up to N versions ahead of the slowest.",
            inferred="2 in mode ssp, 0 in the others",
            example="2",
        ),
    ] = 0
    drop_slowest: Annotated[Count, Setting("Modes sync and ssp: do not wait for the N slowest workers.")] = 0
    buffer: Annotated[
        Count,
        Setting(
            "Mode buffered: close a version when N contributions wait.",
            inferred="1 in mode async, 0 in sync and ssp; buffered needs a number",
            example="4",
        ),
    ] = 0
    ahead: Annotated[
        Count, Setting("Modes buffered and async: let a worker spend up to N clocks on one version; 0 is no limit.")
    ] = 0
    weighting: Annotated[
        str,
        one_of("none", "inverse", "polynomial"),
        Setting(
            "Weigh a contribution that is t versions stale: none (1), inverse (1/(1+t)), polynomial ((1+t)^-exponent).",
            inferred="inverse in modes buffered and async without --ahead, else none",
            example='"inverse"',
        ),
    ] = "none"
    exponent: Annotated[float, Interval(ge=0, le=100), Setting("Set the exponent of polynomial weighting.")] = 0.5
    max_staleness: Annotated[
        int,
        Interval(ge=-1, le=MAX_STALENESS),
        Setting("Accept contributions up to N versions stale, apply --on-stale to others; -1 is no limit."),
    ] = -1
    on_stale: Annotated[
        str,
        one_of("reject", "damp"),
        Setting(
            "Treat contributions beyond --max-staleness: reject, or damp (by --weighting; none counts as inverse)."
        ),
    ] = "reject"
    max_age_s: Annotated[
        float,
        Interval(ge=0, le=1e9),
        Setting("Do not compute on parameters older than this while newer ones exist; 0 is no limit.", name="max_age"),
    ] = 0.0

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
        """Return the factor w(staleness) of a contribution that is used."""
        limit = self.tolerated
        late = limit is not None and staleness > limit
        weighting = "inverse" if late and self.weighting == "none" else self.weighting
        if weighting == "inverse":
            return 1.0 / (1.0 + staleness)
        if weighting == "polynomial":
            return max(LEAST_FACTOR, float((1.0 + staleness) ** -self.exponent))
        return 1.0

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield fields that contradict the mode, each with the reason."""
        if self.mode != "ssp" and self.staleness:
            yield "staleness", f"{self.staleness} contradicts mode {self.mode}; only ssp has a staleness above 0"
        if not self.closes_by_clock and self.drop_slowest:
            yield "drop_slowest", f"{self.drop_slowest} contradicts mode {self.mode}, which waits for no worker"
        for name in ("buffer", "ahead") if self.closes_by_clock else ():
            if getattr(self, name):
                yield name, f"{getattr(self, name)} contradicts mode {self.mode}, which counts clocks"
        if self.mode == "buffered" and self.buffer < 1:
            yield "buffer", "mode buffered needs the number of contributions that close a version, 1 or more"
        if self.mode == "async" and self.buffer != 1:
            yield "buffer", f"{self.buffer} contradicts mode async, which closes on every contribution (1)"


def inferred_bounds(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the bounds that follow from those that were given, by the names of the fields of `Consistency`.

    The mode is the only one to which the given bounds can belong. Otherwise a member that joins a run and gives one of
    its bounds would have it compared with those of another mode.
    """
    count, ahead = given.get("buffer", 0), given.get("ahead", 0)
    by_count = "buffered" if count else "async" if ahead else ""
    by_clock = "ssp" if given.get("staleness", 0) else ""
    mode = given.get("mode") or ("sync" if by_count and by_clock else by_count or by_clock or "sync")
    stale = mode in ("async", "buffered") and not ahead
    usual = {"mode": mode, "staleness": 2 if mode == "ssp" else 0, "buffer": 1 if mode == "async" else 0}
    return {**usual, "weighting": "inverse" if stale else "none"}
