"""Serves metrics to Prometheus over HTTP. The only module that imports ``prometheus_client``."""

import errno
import socket
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Self

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, SummaryMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from driftline.errors import UsageError
from driftline.telemetry.catalogue import LOG_LINES, MEMBER_LABELS, METRICS, STALENESS_BOUNDS
from driftline.telemetry.logs import counted_lines
from driftline.telemetry.metrics import Histogram, Kind, Metric, Sample, Source, Summary

CLOSE_S = 1.0
"""Longest wait for the server's thread to end, in seconds."""


class Exporter:
    """The HTTP server, a context manager. It listens as soon as it is made: a port in use is an error at the start.

    Args:
        host: address to listen on.
        port: port to listen on; 0 chooses a free one.
        labels: values of `MEMBER_LABELS`.

    Raises:
        UsageError: it cannot listen there; says why and what to do.
    """

    def __init__(self, host: str, port: int, labels: Mapping[str, str]) -> None:
        self._collector = _Collector(labels)
        registry = CollectorRegistry()
        for collector in (self._collector, ProcessCollector(registry=None)):
            registry.register(collector)
        try:
            self._server, self._thread = start_http_server(port, addr=host, registry=registry)
        except OSError as error:
            raise UsageError(_why_not(host, port, error)) from None
        self.port = self._server.server_port

    def watch(self, source: Source) -> None:
        """Report the values of ``source`` from now on, instead of an earlier source."""
        self._collector.source = source

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(CLOSE_S)


def check_free(host: str, port: int) -> None:
    """Return if another process could listen there with an `Exporter`.

    Raises:
        UsageError: it could not; says why and what to do.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        raise UsageError(_why_not(host, port, error)) from None
    except OverflowError:
        raise UsageError(
            f"--metrics {host}:{port}: no such port; start from a lower one, at most 65535 is possible"
        ) from None


def _why_not(host: str, port: int, error: OSError) -> str:
    where = f"--metrics {host}:{port}"
    if error.errno == errno.EADDRINUSE:
        return f"{where}: another process listens there already; choose another port, or 0 for a free one"
    return f"{where}: cannot listen there: {error.strerror or error}"


class _Collector(Collector):
    """Asks the source at each scrape."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.source: Source = tuple
        self._labels = [labels[name] for name in MEMBER_LABELS]

    def describe(self) -> Iterable[Family]:
        """Return nothing: no other collector could collide."""
        return ()

    def collect(self) -> Iterator[Family]:
        """Yield every family that has a value now."""
        samples = [*self.source(), *(Sample(LOG_LINES, count, {"level": level}) for level, count in counted_lines())]
        found: dict[Metric, Family] = {}
        for sample in samples:
            family = found.setdefault(sample.metric, _family(sample.metric))
            _add(family, [*self._labels, *(sample.labels[name] for name in sample.metric.labels)], sample.value)
        yield from (found[metric] for metric in METRICS if metric in found)


def _family(metric: Metric) -> Family:
    labels = [*MEMBER_LABELS, *metric.labels]
    match metric.kind:
        case Kind.GAUGE:
            return GaugeMetricFamily(metric.name, metric.meaning, labels=labels)
        case Kind.COUNTER:
            return CounterMetricFamily(metric.name, metric.meaning, labels=labels)
        case Kind.HISTOGRAM:
            return HistogramMetricFamily(metric.name, metric.meaning, labels=labels)
        case Kind.SUMMARY:
            return SummaryMetricFamily(metric.name, metric.meaning, labels=labels)


def _add(family: Family, labels: list[str], value: float | Histogram | Summary) -> None:
    if isinstance(value, Histogram) and isinstance(family, HistogramMetricFamily):
        total = sum(late * count for late, count in value.counts.items())
        family.add_metric(labels, _buckets(value.counts), float(total))
    elif isinstance(value, Summary) and isinstance(family, SummaryMetricFamily):
        family.add_metric(labels, value.count, value.total)
    elif not isinstance(value, Histogram | Summary) and isinstance(family, GaugeMetricFamily | CounterMetricFamily):
        family.add_metric(labels, value)
    else:
        raise TypeError(f"{family.name} is a {family.type}, its value a {type(value).__name__}")


def _buckets(counts: Mapping[int, int]) -> list[tuple[str, float]]:
    below = [
        (str(float(bound)), float(sum(n for late, n in counts.items() if late <= bound))) for bound in STALENESS_BOUNDS
    ]
    return [*below, ("+Inf", float(sum(counts.values())))]
