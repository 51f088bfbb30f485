"""Delivery callbacks, kept until a moment at which calling them is safe."""

import threading
from collections import deque
from collections.abc import Callable
from functools import partial

from driftline.broker.port import OnAppended, OnDelivery
from driftline.errors import BrokerError


class Callbacks:
    """What is still to be told to whom.

    They are never called from inside librdkafka, where sending again would abort the process, nor by two threads at
    once, nor from within one another, which would grow the stack with every record that a callback sends.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._serving = threading.Lock()
        self._server: int | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, on_delivery: OnDelivery | None, on_appended: OnAppended | None, outcome: BrokerError | int) -> None:
        """Remember the calls to be made for a record that failed, or that is in the log at an offset."""
        if on_delivery is not None:
            self._waiting.append(partial(on_delivery, outcome if isinstance(outcome, BrokerError) else None))
        if on_appended is not None and not isinstance(outcome, BrokerError):
            self._waiting.append(partial(on_appended, outcome))

    def serve(self) -> int:
        """Make the calls that wait, in order; returns how many. From within a callback it does nothing."""
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
