"""Delivery callbacks, kept until a moment at which calling them is safe."""

import threading
from collections import deque

from driftline.broker.port import OnDelivery
from driftline.errors import BrokerError


class Callbacks:
    """What is still to be told to whom.

    They are never called from inside librdkafka, where sending again would abort the process, nor by two threads at
    once, nor from within one another, which would grow the stack with every record that a callback sends.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[OnDelivery, BrokerError | None]] = deque()
        self._serving = threading.Lock()
        self._server: int | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, on_delivery: OnDelivery | None, error: BrokerError | None) -> None:
        """Remember a call to be made."""
        if on_delivery is not None:
            self._waiting.append((on_delivery, error))

    def serve(self) -> int:
        """Make the calls that wait, in order; returns how many. From within a callback it does nothing."""
        if not self._waiting or self._server == threading.get_ident():
            return 0
        served = 0
        with self._serving:
            self._server = threading.get_ident()
            try:
                while self._waiting:
                    on_delivery, error = self._waiting.popleft()
                    served += 1
                    on_delivery(error)
            finally:
                self._server = None
        return served
