"""Follows ledger and events of a run for `driftline top`. Joins no group, writes nothing."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from driftline.broker.port import Broker, EndReached, Record, Tail
from driftline.broker.reading import READ_TIMEOUT_S, SAY_EVERY_S
from driftline.broker.topics import Stream, topic_name
from driftline.errors import WaitTimeout
from driftline.ledger.entering.same_run import SameRun
from driftline.observe.records.annotated_ledger import AnnotatedLedger
from driftline.observe.run.recent_events import RECENT_EVENTS, RecentEvents
from driftline.observe.run.top_view import KEPT_ENTRIES, TopView, build_top_view

_POLL_S = 0.05


class RunWatch:
    """Reads records as they arrive.

    Args:
        broker: where the run's topics are.
        run: the run's name.

    Attributes:
        ledger: the ledger so far.
        events: the events so far.
        quiet_since_s: monotonic time of the last record.
    """

    def __init__(self, broker: Broker, run: str) -> None:
        self.ledger = AnnotatedLedger(keep=KEPT_ENTRIES)
        self.events = RecentEvents()
        self.quiet_since_s = time.monotonic()
        self._run = run
        self._ledger_topic, self._events_topic = (topic_name(run, stream) for stream in (Stream.LEDGER, Stream.EVENTS))
        self._ends: set[str] = set()
        self._listens = False
        self._same_run = SameRun(broker, run, self.ledger.state)
        self._reader = broker.reader()

    def __enter__(self) -> Self:
        self._reader.read(self._ledger_topic, 0, 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.close()

    @property
    def is_caught_up(self) -> bool:
        """Whether everything has been read that was there at the beginning."""
        return self._ledger_topic in self._ends and (not self._listens or self._events_topic in self._ends)

    def catch_up(self, say: Callable[[str], None] | None = None) -> None:
        """Read everything that is there.

        Args:
            say: receives a line of progress every two seconds.

        Raises:
            TopicMissing: the run does not exist.
            WaitTimeout: Kafka stopped answering.
        """
        said_s = time.monotonic()
        while not self.is_caught_up:
            self.read(_POLL_S)
            if say is not None and time.monotonic() - said_s > SAY_EVERY_S:
                said_s = time.monotonic()
                say(f"reading {self._ledger_topic}: at offset {self.ledger.state.next_offset}")
            if time.monotonic() - self.quiet_since_s > READ_TIMEOUT_S:
                raise WaitTimeout(
                    f"{self._ledger_topic}: nothing arrived for {READ_TIMEOUT_S:.0f} s; is its Kafka still there?"
                )

    def read(self, seconds: float) -> None:
        """Take the records that arrive within ``seconds``.

        Raises:
            TopicMissing: the run was deleted.
            RunRefused: it was deleted, and another has begun under its name.
            BrokerError: the client cannot go on.
        """
        self._same_run.look()
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0:
            found = self._reader.poll(min(left_s, _POLL_S))
            if found is not None:
                self.quiet_since_s = time.monotonic()
                self._take(found)
            if self.is_caught_up and found is None:
                return

    def _take(self, found: Record | EndReached) -> None:
        if isinstance(found, EndReached):
            self._ends.add(found.topic)
        elif found.topic == self._ledger_topic:
            self.ledger.read(found)
        else:
            self.events.read(found.value, found.timestamp_ms)
        if not self._listens and self._ledger_topic in self._ends:
            self._listen()

    def _listen(self) -> None:
        """Start reading events when the ledger says which run they must belong to."""
        if self.ledger.state.has_begun:
            self._listens = True
            self.events = RecentEvents(self.ledger.state.start.run)
            self._reader.read(self._events_topic, 0, Tail(RECENT_EVENTS))

    def view(self, lines: int) -> TopView:
        """Return a frame with the last ``lines`` records of the ledger."""
        return build_top_view(self._run, self.ledger, self.events, lines)
