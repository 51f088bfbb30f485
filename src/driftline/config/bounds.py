"""From the words of a command line to the bounds and the schedule of a run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from driftline.config.problems import Problems
from driftline.schemas.run.consistency import (
    MAX_COUNT,
    MAX_STALENESS,
    MODES,
    ON_STALE,
    WEIGHTINGS,
    Consistency,
    consistency_problems,
)
from driftline.schemas.run.local_work import MAX_CLOCK_S, MAX_LOCAL_STEPS, MIN_CLOCK_S, LocalWork
from driftline.schemas.run.schedule import DECAYS, SET_BY, Schedule, schedule_problems

LATER_MODES = ("allreduce",)
SSP_STALENESS = "2"
"""Staleness of mode ssp if none is given: enough to hide a worker that is now and then late."""

MAX_VERSIONS = 2**53

_DURATION = re.compile(r"(?P<number>[0-9]{1,9}(\.[0-9]{0,9})?)(?P<unit>ms|s)?")


def implied_mode(words: Mapping[str, str | None]) -> str:
    """Return the mode that is meant where nobody says one: the only one in which the bounds that are said can be.

    Otherwise whoever joins a run and says one of its bounds would have it compared with those of another mode.
    """
    meant = [
        mode
        for name, none, mode in (("staleness", "0", "ssp"), ("buffer", "0", "buffered"), ("ahead", "0", "async"))
        if words[name] not in (None, none)
    ]
    if meant in (["ssp"], ["buffered"], ["async"]):
        return meant[0]
    return "buffered" if meant == ["buffered", "async"] else "sync"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundWords:
    """How drift is bounded and rates change, as somebody typed it; None is what was left out."""

    mode: str
    staleness: str | None
    drop_slowest: str
    buffer: str | None
    ahead: str
    weighting: str | None
    exponent: str
    max_staleness: str | None
    on_stale: str
    max_age: str
    schedule: str
    warmup: str
    decay: str
    final_rate: str
    clip_norm: str
    local_steps: str
    clock: str

    def consistency(self, problems: Problems) -> Consistency:
        """Return the bounds, or anything at all once ``problems`` has grown."""
        before = len(problems.found)
        mode = self._mode(problems)
        late = "-1" if self.max_staleness is None else self.max_staleness
        one = Consistency(
            mode=mode,
            staleness=problems.whole("--staleness", self._staleness(mode), 0, MAX_STALENESS),
            drop_slowest=problems.whole("--drop-slowest", self.drop_slowest, 0, MAX_COUNT),
            buffer=problems.whole("--buffer", self._buffer(mode), 0, MAX_COUNT),
            ahead=problems.whole("--ahead", self.ahead, 0, MAX_COUNT),
            weighting=problems.known("--weighting", self.weighting or self._usual_weighting(mode), WEIGHTINGS),
            exponent=problems.real("--exponent", self.exponent, 0.0, 100.0),
            max_staleness=-1 if late == "-1" else problems.whole("--max-staleness", late, 0, MAX_STALENESS),
            on_stale=problems.known("--on-stale", self.on_stale, ON_STALE),
            max_age_s=problems.real("--max-age", self.max_age, 0.0, 1e9),
        )
        if len(problems.found) == before:
            for problem in consistency_problems(one):
                problems.add(f"--{problem.replace('_', '-', 1)}")
        return one

    def learning_rates(self, problems: Problems) -> Schedule:
        """Return the schedule, or anything at all once ``problems`` has grown."""
        one = Schedule(
            warmup=problems.whole("--warmup", self.warmup, 0, MAX_VERSIONS),
            decay=problems.known("--decay", self.decay, DECAYS),
            final=problems.real("--final-rate", self.final_rate, 0.0, 1.0),
            set_by=problems.known("--schedule", self.schedule, SET_BY),
        )
        for problem in schedule_problems(one) if not problems.found else ():
            problems.add(f"--{problem.replace('final:', 'final-rate:', 1)}")
        return one

    def local(self, problems: Problems) -> LocalWork:
        """Return what a worker does in one clock, or anything at all once ``problems`` has grown."""
        return LocalWork(
            clip_norm=problems.real("--clip-norm", self.clip_norm, 0.0, 1e9),
            steps=problems.whole(
                "--local-steps", self.local_steps, 1, MAX_LOCAL_STEPS, zero="zero local steps compute nothing"
            ),
            clock_s=self._clock_s(problems),
        )

    def _clock_s(self, problems: Problems) -> float:
        """Read a duration: ``2s``, ``500ms``, or a bare number of seconds."""
        found = _DURATION.fullmatch(self.clock)
        seconds = float(found["number"]) * (0.001 if found["unit"] == "ms" else 1.0) if found else -1.0
        if seconds == 0 or MIN_CLOCK_S <= seconds <= MAX_CLOCK_S:
            return seconds
        problems.add(
            f"--clock: {self.clock[:40]!r} is no duration such as 2s or 500ms, from {MIN_CLOCK_S * 1000:g}ms to "
            f"{MAX_CLOCK_S:g}s, nor 0 for none"
        )
        return 0.0

    def _mode(self, problems: Problems) -> str:
        if self.mode in LATER_MODES:
            problems.add(f"--mode: {self.mode!r} is still to come; there are {', '.join(MODES)}")
        return "sync" if self.mode in LATER_MODES else problems.known("--mode", self.mode, MODES)

    def _staleness(self, mode: str) -> str:
        usual = SSP_STALENESS if mode == "ssp" else "0"
        return usual if self.staleness is None else self.staleness

    def _buffer(self, mode: str) -> str:
        usual = "1" if mode == "async" else "0"
        return usual if self.buffer is None else self.buffer

    def _usual_weighting(self, mode: str) -> str:
        """Stale work counts for less by default where nothing bounds how stale it gets."""
        return "inverse" if mode in ("async", "buffered") and self.ahead == "0" else "none"
