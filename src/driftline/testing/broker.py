"""A real Kafka for tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from driftline.broker.embedded import EmbeddedBroker


@contextmanager
def running_broker(home: Path) -> Iterator[str]:
    """Run an embedded broker under ``home`` and yield its bootstrap servers; it ends with the block or this process.

    The same home gives the same data again and, if its port is still free, the same address.

    Raises:
        EmbeddedBrokerError: it did not start; says why and what to do.
    """
    with EmbeddedBroker(home, prepare=False) as broker:
        yield broker.bootstrap_servers
