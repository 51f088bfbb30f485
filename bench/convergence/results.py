"""The results file: one JSON line a finished run, so that a study can be stopped and gone on with.

Before the runs of each start of the program stands a line with its conditions.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bench.convergence.trials import PAUSE_S, SECONDS, Key

SAME = {"seconds": SECONDS, "pause_s": PAUSE_S}
"""What all runs of a file must have in common."""


class Point(NamedTuple):
    """A version on held-out data. ``seconds`` since the workers joined; a loss that is not finite is infinite."""

    version: int
    samples: int
    seconds: float
    loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One finished run.

    Attributes:
        slowness: how many times slower one of the workers is.
        curve: its versions, in order; some of them, always the last that was published.
        accuracy: of the last one.
        versions: the head at the end.
        samples: that went into versions.
        staleness: versions → contributions used that late.
        clocks: contributions used, of the fast workers together and of the last worker.
        waiting: share of its time, from 0 to 1, of a fast worker in the mean and of the last worker.
        gradient_s: mean time of a gradient, pause and all, of that fast worker to which it took longest.
        failure: why the run ended early; empty if it did not.
        load: of the machine, mean of the last minute, when the run began.
    """

    task: str
    way: str
    slowness: int
    seed: int
    curve: tuple[Point, ...]
    accuracy: float
    versions: int
    samples: int
    staleness: Mapping[int, int]
    rejected: int
    clocks: tuple[int, int]
    waiting: tuple[float, float]
    gradient_s: float
    failure: str
    load: float

    @property
    def key(self) -> Key:
        """What tells it from the others."""
        return self.task, self.way, self.slowness, self.seed


@dataclass(frozen=True, slots=True)
class Results:
    """A file's content: its runs, and the conditions of each start of the program."""

    rows: tuple[Row, ...] = ()
    conditions: tuple[Mapping[str, Any], ...] = ()


def append_conditions(file: Path, conditions: Mapping[str, Any]) -> None:
    """Write what the next lines are made under."""
    _append(file, {"conditions": {**conditions, **SAME}})


def append(file: Path, row: Row) -> None:
    """Write a run."""
    told = asdict(row)
    told["curve"] = [[value if math.isfinite(value) else None for value in point] for point in row.curve]
    _append(file, told)


def _append(file: Path, told: Mapping[str, Any]) -> None:
    with file.open("a") as lines:
        lines.write(json.dumps(told, separators=(",", ":"), allow_nan=False) + "\n")


def load(file: Path) -> Results:
    """Read a file; nothing if there is none.

    Raises:
        ValueError: it was measured under other conditions than this program's; says which.
    """
    if not file.exists():
        return Results()
    told = [json.loads(line) for line in file.read_text().splitlines()]
    conditions = tuple(one["conditions"] for one in told if "conditions" in one)
    for one in conditions:
        other = {name: one[name] for name in SAME if one[name] != SAME[name]}
        if other:
            raise ValueError(f"{file} was measured with {other}, not {SAME}; name another file with --results")
    return Results(tuple(_row(one) for one in told if "conditions" not in one), conditions)


def _row(told: Mapping[str, Any]) -> Row:
    curve = tuple(_point(*one) for one in told["curve"])
    staleness = {int(late): count for late, count in told["staleness"].items()}
    pairs = {name: tuple(told[name]) for name in ("clocks", "waiting")}
    return Row(**{**told, **pairs, "curve": curve, "staleness": staleness})


def _point(version: int, samples: int, seconds: float, loss: float | None) -> Point:
    return Point(version, samples, seconds, math.inf if loss is None else loss)
