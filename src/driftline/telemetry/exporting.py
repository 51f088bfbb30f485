"""Figures of a member for Prometheus, if somebody asked for them."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from driftline.telemetry.metrics import Watch, nobody_watches

log = logging.getLogger(__name__)

Address = tuple[str, int]
"""Host and port to listen on; port 0 is any that is free."""


@contextmanager
def exporting(address: Address | None, *, run: str, role: str, member: str) -> Iterator[Watch]:
    """Give a role what it tells where its figures come from, and serve them until the end.

    Raises:
        UsageError: nobody can listen at the address.
    """
    if address is None:
        yield nobody_watches
        return
    from driftline.telemetry.exporter import Exporter  # noqa: PLC0415 - an extra, and only when it is asked for

    host, port = address
    with Exporter(host, port, {"run": run, "role": role, "member": member}) as exporter:
        log.info("metrics at %s", metrics_url((host, exporter.port)))
        yield exporter.watch


def written(address: Address) -> str:
    """Return an address as it is typed."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def metrics_url(address: Address) -> str:
    """Return where the figures of an address are."""
    return f"http://{written(address)}/metrics"
