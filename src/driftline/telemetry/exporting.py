"""Serves the metrics of one role to Prometheus, if an address is given."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from driftline.telemetry.metrics import WatchMetrics, ignore_metrics

log = logging.getLogger(__name__)

Address = tuple[str, int]
"""Host and port to listen on; port 0 chooses a free one."""


@contextmanager
def exporting(address: Address | None, *, run: str, role: str, member: str) -> Iterator[WatchMetrics]:
    """Serve the metrics of a role until the block ends; yields the function that takes their source.

    Args:
        address: host and port to listen on; None serves nothing.
        run: the run's name, the label ``run``.
        role: ``server``, ``worker`` or ``evaluator``.
        member: name of the process in the run.

    Raises:
        UsageError: this process cannot listen there; says why and what to do.
    """
    if address is None:
        yield ignore_metrics
        return
    from driftline.telemetry.exporter import Exporter  # noqa: PLC0415 - an optional dependency

    host, port = address
    with Exporter(host, port, {"run": run, "role": role, "member": member}) as exporter:
        log.info("metrics at %s", metrics_url((host, exporter.port)))
        yield exporter.watch


def address_text(address: Address) -> str:
    """Return an address as a user types it: ``host:port``."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def metrics_url(address: Address) -> str:
    """Return the URL of the metrics of an address."""
    return f"http://{address_text(address)}/metrics"
