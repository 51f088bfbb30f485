"""A real broker for tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from driftline.broker.embedded import EmbeddedBroker


@contextmanager
def running_broker(home: Path) -> Iterator[str]:
    """Run an embedded broker under ``home`` and yield its bootstrap servers; it ends with the block or this process.

    The same home again gives the same data and, as a rule, the same address.
    """
    with EmbeddedBroker(home, prepare=False) as broker:
        yield broker.bootstrap_servers
