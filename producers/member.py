"""What every member of a run does: it reads the run, sends heartbeats, and sends again what Kafka did not take.

Workers and evaluators are members. A process is known by its *incarnation*, sixteen bytes that no other start has. If
a launcher has started the process, they begin with a mark of eight bytes that the launcher made up, so that it
recognises its own processes in the ledger.
"""

import os
from abc import ABC, abstractmethod
from collections import Counter
from typing import Final

from driftline.broker.topics import Stream
from driftline.errors import IntegrityError, UsageError
from driftline.ledger.follower import ModelReader
from driftline.ledger.run_state import Folded, RunState
from driftline.schemas.codec import encode, peek_type
from driftline.schemas.effects import CaughtUp, Effect, Finish, Input, Received, Send, SendFailed, Timer
from driftline.schemas.records import Event, Heartbeat

INCARNATION_BYTES: Final = 16
MARK_BYTES: Final = 8


class Member(ABC):
    """A state machine that reads a run and takes part in it; `WorkerSession` and `EvaluatorSession` are the two kinds.

    Args:
        name: unique in the run.
        incarnation: this start of it, 16 bytes; a new one for each session.
        state: the fold of the ledger to continue; None begins with the ledger.

    Attributes:
        finished: how it ended; None while it goes on.
        counters: what happened, by name.
    """

    def __init__(self, name: str, incarnation: bytes, state: RunState | None) -> None:
        self.name = name
        self.incarnation = incarnation
        self.reader = ModelReader(state)
        self.state = self.reader.state
        self.finished: Finish | None = None
        self.counters: Counter[str] = Counter()
        self._next_beat_s = 0.0

    def begin(self) -> list[Effect]:
        """Return the first effects."""
        return self.reader.begin()

    def on(self, event: Input) -> list[Effect]:
        """Take one input and return what it leads to."""
        if self.finished is not None:
            return []
        try:
            effects = self._dispatch(event)
        except IntegrityError as error:
            effects = [Finish("the log contradicts itself", str(error))]
        return self._note_finish(effects)

    def _note_finish(self, effects: list[Effect]) -> list[Effect]:
        self.finished = next((effect for effect in effects if isinstance(effect, Finish)), None)
        return effects

    def _dispatch(self, event: Input) -> list[Effect]:
        match event:
            case Received(stream=Stream.LEDGER):
                folded, effects = self.reader.on_ledger(event)
                return effects + self._on_ledger(folded)
            case Received(stream=Stream.PARAMETERS):
                return self._on_new_model() if self.reader.on_parameters(event) else []
            case CaughtUp():
                effects = self.reader.on_caught_up(event)
                return effects + (self._on_ledger_end() if event.stream is Stream.LEDGER else [])
            case SendFailed():
                self.counters["sends_failed"] += 1
                # The same bytes again: a clock is spent at its first byte. A heartbeat is followed by another one.
                return [] if peek_type(event.send.value) is Heartbeat else [event.send]
            case Timer():
                return self._on_timer(event.now_s)
        return []

    @abstractmethod
    def _on_ledger(self, folded: Folded) -> list[Effect]:
        """A record of the ledger was folded."""

    def _on_ledger_end(self) -> list[Effect]:
        """The ledger has been read to its end."""
        return []

    def _on_new_model(self) -> list[Effect]:
        """A newer version is complete."""
        return []

    def _on_timer(self, now_s: float) -> list[Effect]:
        return self._beat(now_s)

    def _beat(self, now_s: float) -> list[Effect]:
        """Send a heartbeat if one is due."""
        if not self.state.has_begun or self.state.ended is not None or now_s < self._next_beat_s:
            return []
        self._next_beat_s = now_s + self.state.config.tick_interval_s
        newest = self.reader.follower.newest
        return [send_event(self._heartbeat(-1 if newest is None else newest.version))]

    @abstractmethod
    def _heartbeat(self, version: int) -> Heartbeat:
        """Return a heartbeat of a member whose newest parameters are of ``version``; -1 if it has none."""


def send_event(event: Event) -> Send:
    """Return the send of an event to the coordinator."""
    return Send(Stream.EVENTS, 0, encode(event))


def new_mark() -> bytes:
    """Return a mark that no other process has, 8 bytes."""
    return os.urandom(MARK_BYTES)


def new_incarnation(mark: bytes = b"") -> bytes:
    """Return an incarnation that no other start has, 16 bytes; it begins with ``mark``."""
    return mark + os.urandom(INCARNATION_BYTES - len(mark))


def read_mark(text: str) -> bytes:
    """Read a mark from a command line; empty text is no mark.

    Raises:
        UsageError: the text is not a mark.
    """
    try:
        mark = bytes.fromhex(text)
    except ValueError:
        mark = b"?"
    if len(mark) not in (0, MARK_BYTES):
        raise UsageError(
            f"--mark: {text[:40]!r} is no mark; it has {2 * MARK_BYTES} hexadecimal digits, or leave it out"
        )
    return mark
