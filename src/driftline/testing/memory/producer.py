"""The in-memory ``Producer``: its local queue, and when its callbacks are called."""

import time
from collections import deque
from dataclasses import dataclass
from functools import partial

from driftline.broker.clients import Callbacks, ClientGuard, check_payload
from driftline.broker.port import OnAppended, OnDelivery, Payload
from driftline.errors import BrokerError, DeliveryFailed
from driftline.testing.memory.core import Core


@dataclass(frozen=True, slots=True)
class _Queued:
    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    size_bytes: int
    on_delivery: OnDelivery | None
    on_appended: OnAppended | None
    deadline_s: float


class MemoryProducer:
    """Appends to the in-memory log; while the broker is away, records wait in a queue bounded in bytes."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._queue: deque[_Queued] = deque()
        self._queued_bytes = 0
        self._callbacks = Callbacks()
        self._guard = ClientGuard("producer")
        core.on_return.append(self._drain)

    def send(
        self,
        topic: str,
        partition: int,
        value: Payload | None,
        *,
        key: bytes | None = None,
        on_delivery: OnDelivery | None = None,
        on_appended: OnAppended | None = None,
    ) -> None:
        """See ``Producer.send``."""
        self._guard.check()
        size_bytes = check_payload(topic, partition, key, value)
        self.poll()
        copied = value if value is None or isinstance(value, bytes) else value.tobytes()
        timeout_s = self._core.delivery_timeout_s
        with self._core.changed:
            if self._core.wait_for(partial(self._room_for, size_bytes), timeout_s) is None:
                raise DeliveryFailed(
                    f"a record for {topic}[{partition}] was not queued: the queue of {self._core.queue_bytes} bytes "
                    f"stayed full for {timeout_s:g} s"
                )
            deadline_s = self._core.now_s() + timeout_s
            queued = _Queued(topic, partition, key, copied, size_bytes, on_delivery, on_appended, deadline_s)
            self._queue.append(queued)
            self._queued_bytes += size_bytes
            self._drain()

    def poll(self, timeout_s: float = 0.0) -> int:
        """See ``Producer.poll``."""
        self._guard.check()
        self._core.wait_for(self._something_to_serve, timeout_s)
        return self._callbacks.serve()

    def flush(self, timeout_s: float) -> int:
        """See ``Producer.flush``."""
        self._guard.check()
        deadline_s = time.monotonic() + timeout_s
        while self._queue:
            self._core.wait_for(self._something_to_serve, max(0.0, deadline_s - time.monotonic()))
            self._callbacks.serve()
            if time.monotonic() >= deadline_s:
                break
        self._callbacks.serve()
        return len(self._queue)

    def close(self, timeout_s: float = 5.0) -> int:
        """See ``Producer.close``."""
        try:
            self._guard.check()
        except BrokerError:
            self._guard.close()
            return 0
        undelivered = self.flush(timeout_s)
        self._guard.close()
        with self._core.changed:
            self._core.on_return.remove(self._drain)
            while self._queue:
                self._settle(self._queue.popleft(), DeliveryFailed("the producer was closed before it was delivered"))
        self._callbacks.serve()
        return undelivered

    def _room_for(self, size_bytes: int) -> bool | None:
        self._drain()
        return True if self._queued_bytes + size_bytes <= self._core.queue_bytes or not self._queue else None

    def _something_to_serve(self) -> bool | None:
        self._drain()
        return True if self._callbacks else None

    def _drain(self) -> None:
        """Append waiting records, or fail those that waited too long; called under the lock."""
        now_s = self._core.now_s()
        while self._queue:
            if self._queue[0].deadline_s <= now_s:
                queued = self._queue.popleft()
                self._settle(queued, DeliveryFailed(_describe(queued, "was not delivered in time")))
            elif self._core.away:
                return
            else:
                queued = self._queue.popleft()
                self._settle(queued, self._append(queued))
                self._core.changed.notify_all()

    def _append(self, queued: _Queued) -> BrokerError | int:
        offset = 0
        landed = self._core.sends_to_fail.pop(0) if self._core.sends_to_fail else None
        try:
            if landed is not False:
                now_ms = self._core.now_ms()
                offset = self._core.log.append(
                    queued.topic, queued.partition, queued.value, key=queued.key, timestamp_ms=now_ms
                )
        except BrokerError as error:
            return error
        return offset if landed is None else DeliveryFailed(_describe(queued, "may or may not be in the log"))

    def _settle(self, queued: _Queued, outcome: BrokerError | int) -> None:
        self._queued_bytes -= queued.size_bytes
        self._callbacks.add(queued.on_delivery, queued.on_appended, outcome)


def _describe(queued: _Queued, what: str) -> str:
    return f"a record of {queued.size_bytes} bytes for {queued.topic}[{queued.partition}] {what}"
