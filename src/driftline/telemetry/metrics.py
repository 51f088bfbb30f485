"""What a metric is, and one value of it. Pure; ``exporter`` turns them into Prometheus' text."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias


class Kind(StrEnum):
    """Prometheus' type of a metric."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: its name in queries; a counter's ends with ``_total``.
        kind: its type.
        meaning: its help text, with the unit if the name does not end with it.
        labels: in addition to those that every metric of a process has.
    """

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Histogram:
    """How often each value was observed; values are whole numbers, as versions are."""

    counts: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Summary:
    """Number of observations and their sum."""

    count: int
    total: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric: `Histogram` or `Summary` for metrics of these kinds, else a number."""

    metric: Metric
    value: float | Histogram | Summary
    labels: Mapping[str, str] = field(default_factory=dict)


Source: TypeAlias = Callable[[], Iterable[Sample]]
"""Returns every value at each scrape; called on the exporter's thread."""

WatchMetrics: TypeAlias = Callable[[Source], None]
"""Receives the source of a process's metrics, once it exists; a later source replaces it."""


def ignore_metrics(_source: Source) -> None:
    """Ignore the source: for a process that serves no metrics."""
