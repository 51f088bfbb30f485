"""The seam to Kafka, implemented in this process's memory: for tests and for the simulator.

``MemoryBroker()`` makes clients; its own methods cause faults (failed sends, a broker that goes away, an expired group
member, trimmed and compacted partitions). ``MemoryLog`` is the plain log without clients.

It behaves as Kafka does where driftline depends on it, and ``tests/contract`` checks that on both. It is deterministic:
one thread with its own ``now_s`` always gives the same log. Its records take as much memory as was written and end with
the process.

Imports ``broker.port``, ``broker.clients`` and ``errors``. Never here: files, sockets, or knowledge of runs.
"""

import time
from collections.abc import Callable

from driftline.broker.port import Start
from driftline.testing.memory.admin import MemoryAdmin
from driftline.testing.memory.core import Core
from driftline.testing.memory.log import MemoryLog
from driftline.testing.memory.producer import MemoryProducer
from driftline.testing.memory.readers import MemoryGroupReader, MemoryReader

__all__ = ["MemoryBroker", "MemoryLog"]


class MemoryBroker:
    """A broker in the memory of this process, which causes faults on request.

    Args:
        now_s: returns the seconds of a monotonic clock, from which append times follow. Default: ``time.monotonic``.
        epoch_ms: append time at the moment the broker is made, in milliseconds since the epoch. Default: now, or 0 if
            ``now_s`` is given, so that a test does not depend on when it runs.
        delivery_timeout_s: seconds of ``now_s`` after which a queued record fails, and longest wait of ``send`` for
            room in the queue.
        queue_bytes: bound of each producer's queue.
    """

    def __init__(
        self,
        now_s: Callable[[], float] | None = None,
        *,
        epoch_ms: int | None = None,
        delivery_timeout_s: float = 30.0,
        queue_bytes: int = 64 << 20,
    ) -> None:
        if epoch_ms is None:
            epoch_ms = round(time.time() * 1000) if now_s is None else 0
        self._core = Core(now_s or time.monotonic, epoch_ms, delivery_timeout_s, queue_bytes)

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
        """Report the next ``n`` records as failed; with ``landed`` they are in the log all the same."""
        with self._core.changed:
            self._core.sends_to_fail.extend([landed] * n)

    def go_away(self) -> None:
        """Stop answering until ``come_back``: readers get nothing, producers queue, every other call fails."""
        with self._core.changed:
            self._core.away = True

    def come_back(self) -> None:
        """Answer again; appends what producers queued, in the order in which the producers were made."""
        with self._core.changed:
            self._core.away = False
            for drain in self._core.on_return:
                drain()
            self._core.changed.notify_all()

    def expire_member(self, topic: str, group: str, member: str) -> None:
        """Remove a member from its group, as a session time-out does; it loses its partitions and joins again."""
        with self._core.changed:
            joined = self._core.groups.get((group, topic))
            if joined is not None:
                joined.expire(member)
            self._core.changed.notify_all()

    def trim(self, topic: str, partition: int, offset: int) -> None:
        """Delete the records before ``offset``, as retention does."""
        with self._core.changed:
            self._core.log.trim(topic, partition, offset)

    def compact(self, topic: str, partition: int, *, drop_tombstones: bool = False) -> None:
        """Compact a partition, as Kafka's cleaner does: offsets get holes."""
        with self._core.changed:
            self._core.log.compact(topic, partition, drop_tombstones=drop_tombstones)
