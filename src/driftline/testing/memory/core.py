"""State that the clients of one in-memory broker share: the log, the groups, one lock, and requested faults."""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from driftline.broker.clients import start_offset
from driftline.broker.port import Position
from driftline.errors import BrokerUnreachable
from driftline.testing.memory.log import MemoryLog

if TYPE_CHECKING:
    from driftline.testing.memory.groups import Group

T = TypeVar("T")


class Core:
    """State behind one lock; ``changed`` is notified when a waiting client may have something to do."""

    def __init__(self, now_s: Callable[[], float], epoch_ms: int, delivery_timeout_s: float, queue_bytes: int) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.log = MemoryLog()
        self.groups: dict[tuple[str, str], Group] = {}
        self.now_s = now_s
        self.delivery_timeout_s = delivery_timeout_s
        self.queue_bytes = queue_bytes
        self.away = False
        self.sends_to_fail: list[bool] = []
        """One entry for each send that shall fail: whether its record is appended all the same."""
        self.on_return: list[Callable[[], None]] = []
        """Called when the broker comes back, one for each producer, in the order in which they were made."""
        self._epoch_ms = epoch_ms
        self._start_s = now_s()

    def now_ms(self) -> int:
        """Return the append time, in milliseconds since the epoch."""
        return self._epoch_ms + round((self.now_s() - self._start_s) * 1000)

    def reach(self) -> None:
        """Return if the broker answers.

        Raises:
            BrokerUnreachable: it went away, see ``MemoryBroker.go_away``.
        """
        if self.away:
            raise BrokerUnreachable("the in-memory broker does not answer: go_away was called, come_back was not")

    def wait_for(self, attempt: Callable[[], T], timeout_s: float) -> T:
        """Repeat ``attempt`` under the lock after every change, until it returns something or the time is over."""
        deadline_s = time.monotonic() + timeout_s
        with self.changed:
            while (found := attempt()) is None:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    break
                self.changed.wait(left_s)
            return found

    def resolve(self, topic: str, partition: int, position: Position) -> int:
        """Return the offset that a position means now.

        Raises:
            TopicMissing: no such topic or partition.
        """
        return start_offset(position, self.log.bounds(topic, partition))
