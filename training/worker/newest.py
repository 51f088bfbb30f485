"""The newest published version of a run, read without taking part in it."""

import threading

from driftline.broker.port import Broker
from driftline.broker.topics import Stream
from driftline.ledger.entering.checkpoint import enter_ledger
from driftline.ledger.follower import Model, ModelReader
from driftline.ledger.run_state import RunState
from driftline.runtime.running import Running
from driftline.schemas.effects import CaughtUp, Effect, Input, Received

READER = "reader"
"""Name of a process that reads a run and is no member of it."""


def read_newest(broker: Broker, run: str, timeout_s: float) -> Model:
    """Read the newest version of a run that exists, as one vector.

    Raises:
        WaitTimeout: no version is complete within the time.
        IntegrityError: the log contradicts itself.
    """
    return wait_for_newest(broker, run, VersionReader(enter_ledger(broker, run).state()), timeout_s)


def wait_for_newest(broker: Broker, run: str, reader: "VersionReader", timeout_s: float) -> Model:
    """Wait until ``reader`` has the newest version; errors as for `read_newest`."""
    with Running(broker, run, reader, READER) as running:
        model = running.wait_for(reader.settled, stop=threading.Event(), timeout_s=timeout_s, whom=reader.waiting_for)
    if model is None:
        raise AssertionError("a reader does not finish")
    return model


class VersionReader:
    """A state machine that folds the ledger from ``state`` on and reads the newest version."""

    def __init__(self, state: RunState) -> None:
        self.reader = ModelReader(state)
        self._ends: set[int] = set()

    def begin(self) -> list[Effect]:
        """Return the first effects."""
        return self.reader.begin()

    def on(self, event: Input) -> list[Effect]:
        """Take one input."""
        match event:
            case Received(stream=Stream.LEDGER):
                return self.reader.on_ledger(event)[1]
            case Received(stream=Stream.PARAMETERS):
                self.reader.on_parameters(event)
            case CaughtUp():
                effects = self.reader.on_caught_up(event)
                if event.stream is Stream.PARAMETERS:
                    self._ends.add(event.partition)
                if effects:
                    self._ends.clear()  # it looks further back
                return effects
        return []

    def settled(self) -> Model | None:
        """Return the newest version once everything that was there has been read."""
        state = self.reader.state
        if not state.has_begun or len(self._ends) < state.layout.partitions:
            return None
        return self.reader.follower.newest

    def newer_than(self, seen: int) -> Model | bool | None:
        """Return a version that is newer, or True if there will be none."""
        found = self.settled()
        if found is not None and found.version > seen:
            return found
        return True if self.is_over(seen) else None

    def is_over(self, seen: int) -> bool:
        """Whether the run has ended and nothing newer comes."""
        ended = self.reader.state.ended
        return ended is not None and (seen >= ended.version or bool(ended.failure and self.settled() is not None))

    def waiting_for(self) -> str:
        """Say what is missing."""
        if not self.reader.state.has_begun:
            return "the run to start"
        newest = self.reader.follower.newest
        return f"a version newer than {-1 if newest is None else newest.version}"
