"""What the clients of every implementation of the seam share: guard, payload check, callbacks, start offsets."""

import os
import threading
from collections import deque
from collections.abc import Callable
from functools import partial

import numpy as np

from driftline.broker.port import (
    MAX_RECORD_BYTES,
    Bounds,
    OnAppended,
    OnDelivery,
    Payload,
    Position,
    Start,
    Tail,
    TopicSpec,
)
from driftline.errors import BrokerError


class ClientGuard:
    """Knows which process made a client and whether the client was closed.

    A fork copies a client's memory but none of its threads: a copied producer would accept records and send none.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._pid = os.getpid()
        self._closed = False

    def check(self) -> None:
        """Return if the client may be used.

        Raises:
            BrokerError: it was closed, or made in another process.
        """
        if self._pid != os.getpid():
            raise BrokerError(
                f"this {self._what} was made in process {self._pid} and cannot be used in process {os.getpid()}: "
                f"create clients after the fork, in the process that uses them"
            )
        if self._closed:
            raise BrokerError(f"this {self._what} is closed: make a new one")

    def close(self) -> bool:
        """Mark the client as closed; True only if it must be released now: the first time, and not in a forked copy."""
        first = not self._closed and self._pid == os.getpid()
        self._closed = True
        return first


class Callbacks:
    """Delivery callbacks that wait for a moment at which calling them is safe.

    They never run inside librdkafka, where sending again would abort the process; never on two threads at once; and
    never from within one another, which would grow the stack with every record that a callback sends.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._serving = threading.Lock()
        self._server: int | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, on_delivery: OnDelivery | None, on_appended: OnAppended | None, outcome: BrokerError | int) -> None:
        """Queue the calls for one record; ``outcome`` is its error or its offset in the log."""
        if on_delivery is not None:
            self._waiting.append(partial(on_delivery, outcome if isinstance(outcome, BrokerError) else None))
        if on_appended is not None and not isinstance(outcome, BrokerError):
            self._waiting.append(partial(on_appended, outcome))

    def serve(self) -> int:
        """Make the queued calls in order and return their number; does nothing from within a callback."""
        if not self._waiting or self._server == threading.get_ident():
            return 0
        served = 0
        with self._serving:
            self._server = threading.get_ident()
            try:
                while self._waiting:
                    call = self._waiting.popleft()
                    served += 1
                    call()
            finally:
                self._server = None
        return served


def check_payload(topic: str, partition: int, key: bytes | None, value: Payload | None) -> int:
    """Return the size of a record's key and value, in bytes.

    Raises:
        TypeError: the value is neither bytes nor a C-contiguous array of uint8.
        BrokerError: the record is larger than ``MAX_RECORD_BYTES``; names both sizes.
    """
    size_bytes = _size_bytes(value) + (len(key) if key is not None else 0)
    if size_bytes > MAX_RECORD_BYTES:
        raise BrokerError(
            f"a record for {topic}[{partition}] has {size_bytes} bytes of key and value, the limit is "
            f"{MAX_RECORD_BYTES}: cut it into smaller records (smaller shards)"
        )
    return size_bytes


def _size_bytes(value: Payload | None) -> int:
    if value is None:
        return 0
    if isinstance(value, np.ndarray):
        if value.dtype != np.uint8 or not value.flags.c_contiguous:
            raise TypeError(f"a payload must be C-contiguous uint8, not {value.dtype} with strides {value.strides}")
        return value.nbytes
    if not isinstance(value, bytes):
        raise TypeError(f"a payload must be bytes or an array of uint8, not {type(value).__name__}")
    return len(value)


def check_partitions(spec: TopicSpec, found: int) -> None:
    """Return if an existing topic has the wanted number of partitions.

    Raises:
        BrokerError: it has another number; names both.
    """
    if found != spec.partitions:
        raise BrokerError(
            f"topic {spec.name} exists with {found} partitions, not {spec.partitions}: delete it, or ask for {found}"
        )


def start_offset(position: Position, bounds: Bounds) -> int:
    """Return the offset that a position means in a partition with these bounds."""
    match position:
        case Start.BEGINNING:
            return bounds.begin
        case Start.END:
            return bounds.end
        case Tail(records):
            return max(bounds.begin, bounds.end - records)
        case offset:
            return offset
