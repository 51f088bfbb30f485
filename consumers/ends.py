"""Looking up where the partitions of a topic end, without keeping anybody waiting."""

import logging
import queue
import threading
from collections import deque
from collections.abc import Mapping

from driftline.broker.port import Broker
from driftline.errors import BrokerError

log = logging.getLogger(__name__)


class Ends:
    """Asks on a thread of its own, which begins with the first question.

    Attributes:
        answers: topic and partition → the next offset to be written, as it was after the question; an empty mapping
            if Kafka could not be asked.
    """

    def __init__(self, broker: Broker) -> None:
        self.answers: deque[tuple[str, Mapping[int, int]]] = deque()
        self._broker = broker
        self._questions: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def ask(self, topic: str) -> None:
        """Ask about a topic; there is an answer to every question, in the end."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ends", daemon=True)
            self._thread.start()
        self._questions.put(topic)

    def close(self) -> None:
        """Ask no more; what is being asked is not waited for. Idempotent."""
        self._questions.put(None)

    def _run(self) -> None:
        admin = self._broker.admin()
        try:
            while (topic := self._questions.get()) is not None:
                try:
                    bounds = admin.bounds(topic)
                except BrokerError as error:
                    log.info("where %s ends cannot be looked up: %s", topic, error)
                    bounds = {}
                self.answers.append((topic, {partition: one.end for partition, one in bounds.items()}))
        finally:
            admin.close()
