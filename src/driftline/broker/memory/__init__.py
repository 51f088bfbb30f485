"""A broker in this process's memory: for tests, the simulation, and whoever wants to try without Kafka.

It behaves as Kafka does where driftline depends on it, and ``tests/contract`` proves that on both. It is
deterministic: what one thread does to it with a ``ManualClock`` always gives the same log. It is as large as what is
written to it, and it is gone with the process.
"""

import time

from driftline.broker.memory.admin import MemoryAdmin
from driftline.broker.memory.core import Core
from driftline.broker.memory.log import MemoryLog
from driftline.broker.memory.producer import MemoryProducer
from driftline.broker.memory.readers import MemoryGroupReader, MemoryReader
from driftline.broker.port import Start
from driftline.clock import Clock, SystemClock

__all__ = ["MemoryBroker", "MemoryLog"]


class MemoryBroker:
    """Implements ``Broker``; the methods below those of the protocol are hooks for tests.

    Args:
        clock: gives the append times; the machine's by default.
        epoch_ms: append time at the moment the broker was made, milliseconds since the epoch; now by default, and 0 if
            a clock is given, so that nothing depends on when a test runs.
        delivery_timeout_s: after how many seconds of ``clock`` a queued record fails, and how long ``send`` waits for
            room in the queue.
        queue_bytes: bound of each producer's queue.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        epoch_ms: int | None = None,
        delivery_timeout_s: float = 30.0,
        queue_bytes: int = 64 << 20,
    ) -> None:
        if epoch_ms is None:
            epoch_ms = round(time.time() * 1000) if clock is None else 0
        self._core = Core(clock or SystemClock(), epoch_ms, delivery_timeout_s, queue_bytes)

    def producer(self) -> MemoryProducer:
        """See ``Broker.producer``."""
        return MemoryProducer(self._core)

    def reader(self) -> MemoryReader:
        """See ``Broker.reader``."""
        return MemoryReader(self._core)

    def group_reader(self, topic: str, group: str, member: str, start: Start) -> MemoryGroupReader:
        """See ``Broker.group_reader``."""
        return MemoryGroupReader(self._core, topic, group, member, start)

    def admin(self) -> MemoryAdmin:
        """See ``Broker.admin``."""
        return MemoryAdmin(self._core)

    def check(self, timeout_s: float) -> None:  # noqa: ARG002 - this broker answers at once, or not at all
        """See ``Broker.check``."""
        with self._core.changed:
            self._core.reach()

    @property
    def log(self) -> MemoryLog:
        """The plain log; use it from one thread at a time."""
        return self._core.log

    def fail_next_sends(self, n: int, *, landed: bool) -> None:
        """Report the next ``n`` records as failed, although they are in the log if ``landed``."""
        with self._core.changed:
            self._core.sends_to_fail.extend([landed] * n)

    def go_away(self) -> None:
        """Answer nobody until ``come_back``: readers see nothing, producers queue, everything else is refused."""
        with self._core.changed:
            self._core.away = True

    def come_back(self) -> None:
        """Answer again; what producers queued is appended, in the order in which they were made."""
        with self._core.changed:
            self._core.away = False
            for drain in self._core.on_return:
                drain()
            self._core.changed.notify_all()

    def expire_member(self, topic: str, group: str, member: str) -> None:
        """Throw a member out of its group, as a session time-out does; it loses its partitions and joins again."""
        with self._core.changed:
            joined = self._core.groups.get((group, topic))
            if joined is not None:
                joined.expire(member)
            self._core.changed.notify_all()

    def trim(self, topic: str, partition: int, offset: int) -> None:
        """Delete what stands before ``offset``, as retention does."""
        with self._core.changed:
            self._core.log.trim(topic, partition, offset)

    def compact(self, topic: str, partition: int, *, drop_tombstones: bool = False) -> None:
        """Compact a partition, as Kafka's cleaner does: offsets get holes."""
        with self._core.changed:
            self._core.log.compact(topic, partition, drop_tombstones=drop_tombstones)
