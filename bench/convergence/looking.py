"""Looking at finished runs: a loss at a mark, a time to a loss, and what five seeds say together."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.convergence.results import Point, Row


@dataclass(frozen=True, slots=True)
class Spread:
    """Several seeds' values of one number: median, least and most, and how many of the runs have it."""

    median: float
    least: float
    most: float
    count: int
    runs: int


def spread(values: Iterable[float | None]) -> Spread | None:
    """Put values together; None is a run that has none. None if no run has one."""
    every = list(values)
    found = [value for value in every if value is not None]
    if not found:
        return None
    return Spread(statistics.median(found), min(found), max(found), len(found), len(every))


def loss_at_version(row: Row, version: float) -> float | None:
    """Return the loss of the newest published version up to this one; None if the run did not get there."""
    return _newest([one for one in row.curve if one.version <= version]) if row.versions >= version else None


def loss_at_samples(row: Row, samples: float) -> float | None:
    """Return the loss of the newest published version of at most so many samples; None if there were not so many."""
    return _newest([one for one in row.curve if one.samples <= samples]) if row.samples >= samples else None


def loss_at_second(row: Row, seconds: float) -> float | None:
    """Return the loss of the newest version published by then; None if there was none that was measured."""
    return _newest([one for one in row.curve if one.seconds <= seconds])


def _newest(points: Sequence[Point]) -> float | None:
    return points[-1].loss if points else None


def seconds_to(row: Row, target: float) -> float | None:
    """Return when the first measured version with this loss or less was published; None if there was none."""
    return next((one.seconds for one in row.curve if one.loss <= target), None)


def mean_staleness(row: Row) -> float | None:
    """Return the mean staleness of the contributions used, in versions; None if there are none."""
    total = sum(row.staleness.values())
    return sum(late * count for late, count in row.staleness.items()) / total if total else None
