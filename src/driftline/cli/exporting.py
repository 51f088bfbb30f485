"""Figures of a role for Prometheus, if somebody asked for them."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from driftline.config.address import Address
    from driftline.telemetry.metrics import Watch

log = logging.getLogger(__name__)


@contextmanager
def exporting(address: "Address | None", *, run: str, role: str, member: str) -> "Iterator[Watch]":
    """Give a role what it tells where its figures come from, and serve them until the end.

    Raises:
        UsageError: nobody can listen at the address.
    """
    from driftline.telemetry.metrics import nobody_watches  # noqa: PLC0415 - keeps --help fast

    if address is None:
        yield nobody_watches
        return
    from driftline.telemetry.exporter import Exporter  # noqa: PLC0415 - an extra, and only when it is asked for

    host, port = address
    with Exporter(host, port, {"run": run, "role": role, "member": member}) as exporter:
        log.info("metrics at http://%s:%d/metrics", host, exporter.port)
        yield exporter.watch
