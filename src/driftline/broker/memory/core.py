"""What the clients of one in-memory broker share: the log, the groups, one lock, and the faults a test asked for."""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from driftline.broker.memory.log import MemoryLog
from driftline.broker.port import Position, Start, Tail
from driftline.clock import Clock
from driftline.errors import BrokerUnreachable

if TYPE_CHECKING:
    from driftline.broker.memory.groups import Group

T = TypeVar("T")


class Core:
    """State behind one lock; ``changed`` is notified whenever a waiting client may have something to do."""

    def __init__(self, clock: Clock, epoch_ms: int, delivery_timeout_s: float, queue_bytes: int) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.log = MemoryLog()
        self.groups: dict[tuple[str, str], Group] = {}
        self.clock = clock
        self.delivery_timeout_s = delivery_timeout_s
        self.queue_bytes = queue_bytes
        self.away = False
        self.sends_to_fail: list[bool] = []
        """One entry for each send to fail: whether its record lands all the same."""
        self.on_return: list[Callable[[], None]] = []
        """What producers do, in the order in which they were made, when the broker comes back."""
        self._epoch_ms = epoch_ms
        self._start_s = clock.now_s()

    def now_ms(self) -> int:
        """Append time, in milliseconds since the epoch."""
        return self._epoch_ms + round((self.clock.now_s() - self._start_s) * 1000)

    def reach(self) -> None:
        """Return if the broker is there.

        Raises:
            BrokerUnreachable: a test sent it away.
        """
        if self.away:
            raise BrokerUnreachable("nobody answers at memory: the in-memory broker was sent away")

    def wait_for(self, attempt: Callable[[], T], timeout_s: float) -> T:
        """Repeat ``attempt`` under the lock whenever something changed, until it returns something or time is up."""
        deadline_s = time.monotonic() + timeout_s
        with self.changed:
            while (found := attempt()) is None:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    break
                self.changed.wait(left_s)
            return found

    def resolve(self, topic: str, partition: int, position: Position) -> int:
        """Offset that a position stands for now.

        Raises:
            TopicMissing: no such topic or partition.
        """
        bounds = self.log.bounds(topic, partition)
        match position:
            case Start.BEGINNING:
                return bounds.begin
            case Start.END:
                return bounds.end
            case Tail(records):
                return max(bounds.begin, bounds.end - records)
            case offset:
                return offset
