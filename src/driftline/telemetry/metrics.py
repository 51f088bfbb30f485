"""Figures: what there is to report, and single values of it. Pure; ``exporter`` turns them into Prometheus' text."""

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
        name: as it is asked for; that of a counter ends with ``_total``.
        meaning: its help text, with the unit if the name does not end with it.
        labels: besides those that every metric of a process has.
    """

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Counted:
    """Observations counted by value: whole numbers, as versions are."""

    counts: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Summed:
    """Observations, how many and their sum."""

    count: int
    total: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric. A histogram has `Counted`, a summary `Summed`."""

    metric: Metric
    value: float | Counted | Summed
    labels: Mapping[str, str] = field(default_factory=dict)


Source: TypeAlias = Callable[[], Iterable[Sample]]
"""Asked for every value whenever somebody wants to know; called on the exporter's thread."""

Watch: TypeAlias = Callable[[Source], None]
"""Told where the figures of a process come from, once there are any."""


def nobody_watches(_source: Source) -> None:
    """Take no notice: what a process does whose figures nobody asked for."""
