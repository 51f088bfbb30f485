"""One queue for all that a process reads, bounded in items and in bytes."""

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TypeAlias

from driftline.broker.port import Assigned, EndReached, Record, Revoked

_ITEM_BYTES = 256
"""Bytes that an item counts beside its key and value, roughly, so that tiny items are bounded too."""


@dataclass(frozen=True, slots=True)
class Started:
    """A pump reads this partition from ``offset`` on; what came before this item is from an earlier reading."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """A pump no longer reads this partition; nothing of it follows."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class NotStarted:
    """A pump was asked to read this partition and cannot: it is missing, or does not hold the position."""

    topic: str
    partition: int
    error: Exception


@dataclass(frozen=True, slots=True)
class Failed:
    """Something went wrong in a pump; ``over`` if the pump ended with it and this is its last item."""

    error: Exception
    over: bool


Event: TypeAlias = Record | EndReached | Assigned | Revoked | Started | NotStarted | Stopped | Failed


@dataclass(frozen=True, slots=True)
class Pumped:
    """An event, and the name of the pump that it comes from."""

    pump: str
    event: Event


class Inflow:
    """A first-in first-out queue between pumps and the one loop that takes from it.

    Args:
        max_items: bound in items.
        max_bytes: bound in bytes of keys and values. One item always fits, so the queue is never stuck.
    """

    def __init__(self, max_items: int = 10_000, max_bytes: int = 64 << 20) -> None:
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._items: deque[Pumped] = deque()
        self._bytes = 0
        self._changed = threading.Condition()

    def put(self, item: Pumped, timeout_s: float = 0.0) -> bool:
        """Add an item; False if the queue stayed full for ``timeout_s`` seconds."""
        size_bytes = _size_bytes(item)
        with self._changed:
            if not self._changed.wait_for(lambda: self._fits(size_bytes), timeout_s):
                return False
            self._items.append(item)
            self._bytes += size_bytes
            self._changed.notify_all()
            return True

    def get(self, timeout_s: float) -> Pumped | None:
        """Take the oldest item, or None if there is none within ``timeout_s`` seconds."""
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            while not self._items:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    return None
                self._changed.wait(left_s)
            item = self._items.popleft()
            self._bytes -= _size_bytes(item)
            self._changed.notify_all()
            return item

    def half_empty(self) -> bool:
        """Whether at most half of either bound is used."""
        with self._changed:
            return 2 * len(self._items) <= self._max_items and 2 * self._bytes <= self._max_bytes

    def __len__(self) -> int:
        with self._changed:
            return len(self._items)

    def _fits(self, size_bytes: int) -> bool:
        if not self._items:
            return True
        return len(self._items) < self._max_items and self._bytes + size_bytes <= self._max_bytes


def _size_bytes(item: Pumped) -> int:
    if not isinstance(item.event, Record):
        return _ITEM_BYTES
    return _ITEM_BYTES + len(item.event.key or b"") + len(item.event.value or b"")
