"""Reading a partition from a position to its end, once for every caller: one loop, one deadline, one message."""

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

from driftline.broker.port import Broker, EndReached, Position, PositionLost, Reader, Record, Start
from driftline.errors import WaitTimeout

READ_TIMEOUT_S = 60.0
"""How long reading a partition may take while no record of it arrives."""

SAY_EVERY_S = 2.0
POLL_S = 0.2

Say = Callable[[str], None]
"""Takes a line of progress."""


@contextmanager
def reading(broker: Broker) -> Iterator[Reader]:
    """Open a reader for the length of a block."""
    reader = broker.reader()
    try:
        yield reader
    finally:
        reader.close()


def until_end(
    broker: Broker, topic: str, partition: int, position: Position, say: Say | None = None
) -> Generator[Record]:
    """Yield the records of a partition from a position to its present end, with a reader of its own; see `records`.

    ``say`` receives a line every two seconds.
    """
    said_s = time.monotonic()
    with reading(broker) as reader:
        for found in records(reader, topic, partition, position):
            yield found
            if say is not None and time.monotonic() - said_s > SAY_EVERY_S:
                said_s = time.monotonic()
                say(f"reading {topic}: at offset {found.offset}")


def records(
    reader: Reader,
    topic: str,
    partition: int,
    position: Position,
    *,
    stop_at: int | None = None,
    stop: threading.Event | None = None,
    restart: bool = False,
    timeout_s: float = READ_TIMEOUT_S,
) -> Generator[Record]:
    """Yield the records of a partition from a position to its present end.

    Args:
        reader: reads nothing else of the same partition; it stops reading it at the end.
        topic: to read.
        partition: to read.
        position: to begin at.
        stop_at: offset to stop before, if that comes first.
        stop: set it to stop at once.
        restart: read from where the partition begins when retention has deleted the position.
        timeout_s: seconds without a record after which to give up; the time that the caller takes does not count.

    Raises:
        TopicMissing: no such topic or partition.
        PositionLost: the partition does not hold the position.
        WaitTimeout: no record within ``timeout_s``; names the topic.
    """
    reader.read(topic, partition, position)
    moved_s = time.monotonic()
    try:
        while not (stop is not None and stop.is_set()):
            found = _poll(reader, restart=restart)
            if isinstance(found, EndReached) or (found is not None and stop_at is not None and found.offset >= stop_at):
                return
            if found is not None:
                yield found
                moved_s = time.monotonic()
                if found.offset + 1 == stop_at:
                    return
            elif time.monotonic() - moved_s > timeout_s:
                raise WaitTimeout(f"{topic}: nothing arrived for {timeout_s:.0f} s; is its Kafka still there?")
    finally:
        reader.stop(topic, partition)


def _poll(reader: Reader, *, restart: bool) -> Record | EndReached | None:
    try:
        return reader.poll(POLL_S)
    except PositionLost as lost:
        if not restart:
            raise
        reader.read(lost.topic, lost.partition, Start.BEGINNING)
        return None
