"""Requests to Kafka's administration that a shell does not wait for: look up ends, delete old records."""

import logging
import queue
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping

from driftline.broker.port import Admin, Broker
from driftline.errors import BrokerError
from driftline.schemas.effects import AskEnds

log = logging.getLogger(__name__)


class Errands:
    """Runs errands one after the other on a thread of its own, which begins with the first.

    Attributes:
        answers: the question, and partition → the next offset to be written, as it was after the question; an empty
            mapping if Kafka could not be asked.
        trims: deletions of records that worked (``done``), and that did not (``failed``).
    """

    def __init__(self, broker: Broker) -> None:
        self.answers: deque[tuple[AskEnds, Mapping[int, int]]] = deque()
        self.trims: Counter[str] = Counter()
        self._broker = broker
        self._errands: queue.SimpleQueue[Callable[[Admin], None] | None] = queue.SimpleQueue()
        self._trimmed: dict[tuple[str, int], int] = {}
        self._explains = False
        self._thread: threading.Thread | None = None

    def ask_ends(self, question: AskEnds, topic: str) -> None:
        """Ask where the partitions of a topic end; there is an answer to every question, in the end."""
        self._run_later(lambda admin: self._look_up(admin, question, topic))

    def trim(self, topic: str, partition: int, before: int) -> None:
        """Delete the records of a partition before an offset. If that fails, a later one covers it."""
        self._run_later(lambda admin: self._trim(admin, topic, partition, before))

    def explain(self, topic: str, words: Callable[[], str]) -> None:
        """Log ``words``, and why nothing can be written to a topic, unless they are empty by then; once at a time."""
        if not self._explains:
            self._explains = True
            self._run_later(lambda admin: self._explain(admin, topic, words))

    def close(self) -> None:
        """Take no more errands; the one that is being run is not waited for. Idempotent."""
        self._errands.put(None)

    def _run_later(self, errand: Callable[[Admin], None]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="errands", daemon=True)
            self._thread.start()
        self._errands.put(errand)

    def _run(self) -> None:
        admin = self._broker.admin()
        try:
            while (errand := self._errands.get()) is not None:
                errand(admin)
        finally:
            admin.close()

    def _look_up(self, admin: Admin, question: AskEnds, topic: str) -> None:
        try:
            bounds = admin.bounds(topic)
        except BrokerError as error:
            log.info("where %s ends cannot be looked up: %s", topic, error)
            bounds = {}
        self.answers.append((question, {partition: one.end for partition, one in bounds.items()}))

    def _explain(self, admin: Admin, topic: str, words: Callable[[], str]) -> None:
        try:
            why = "; ".join(admin.why_not_writable(topic)) or "it answers and names no reason; are all of its nodes up?"
        except BrokerError as error:
            why = str(error)
        self._explains = False
        if said := words():
            log.warning("%s: %s", said, why)

    def _trim(self, admin: Admin, topic: str, partition: int, before: int) -> None:
        if before <= self._trimmed.get((topic, partition), 0):
            return
        try:
            admin.trim(topic, {partition: before})
        except BrokerError as error:
            self.trims["failed"] += 1
            log.warning("%s[%d] could not be trimmed before offset %d: %s", topic, partition, before, error)
            return
        self.trims["done"] += 1
        self._trimmed[topic, partition] = before
