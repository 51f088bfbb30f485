"""Sessions beside a computing thread: Kafka on a thread of its own, torch on the caller's."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Protocol, Self, TypeVar

from driftline.broker.port import Broker
from driftline.errors import WaitTimeout
from driftline.ledger.entering.same_run import SameRun
from driftline.ledger.follower import ModelReader
from driftline.runtime.shell import TIMER_S, Core, Shell
from driftline.schemas.effects import Effect, Finish
from driftline.telemetry.metrics import Sample

T = TypeVar("T")

log = logging.getLogger(__name__)

SAY_S = 5.0
"""Seconds between two lines that say what is waited for."""

JOIN_S = 15.0
"""Seconds that the thread may take to end; longer than closing every client can take."""


class Session(Core, Protocol):
    """A state machine that reads a run's ledger and models."""

    @property
    def reader(self) -> ModelReader:
        """Both of these."""
        ...


class Running:
    """Drives a session on a thread of its own; a context manager.

    The caller's thread reads the session and hands in effects by `query`, `wait_for` and `perform` only, which hold the
    shell's lock.
    """

    def __init__(self, broker: Broker, run: str, core: Session, member: str) -> None:
        self._shell = Shell(broker, run, core, member)
        self._same_run = SameRun(broker, run, core.reader.state)
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._drive, name=f"session {member}", daemon=True)
        self.undelivered = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def finished(self) -> Finish | None:
        """How the session ended, if it has."""
        return self._shell.finished

    def query(self, question: Callable[[], T]) -> T:
        """Ask the session something, under its lock."""
        with self._shell.changed:
            return question()

    def samples(self, own: Callable[[], Iterable[Sample]]) -> list[Sample]:
        """Return the metrics of the session, as ``own`` reads them, and of what passes through to Kafka."""
        with self._shell.changed:
            return [*own(), *self._shell.samples()]

    def check(self) -> None:
        """Raise what went wrong on the session's thread, if anything did."""
        if self._error is not None:
            raise self._error

    def check_same_run(self) -> None:
        """Look whether the run is still the one that was read, if most of what came since the last time did not count.

        Raises:
            RunRefused: the run was deleted, and another has begun under its name.
        """
        if self.query(self._same_run.is_in_doubt):
            self._same_run.check()

    def perform(self, effects: Callable[[], Iterable[Effect]]) -> None:
        """Ask the session for effects and carry them out, under its lock; raises what went wrong, if anything did."""
        with self._shell.changed:
            self.check()
            self._shell.perform(effects())

    def wait_for(
        self, question: Callable[[], T | None], *, stop: threading.Event, timeout_s: float, whom: Callable[[], str]
    ) -> T | None:
        """Wait until ``question`` has an answer; None when the session finished or ``stop`` was set.

        Raises:
            WaitTimeout: no answer within ``timeout_s``; says for whom, as ``whom`` puts it.
            RunRefused: the run was deleted, and another has begun under its name.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            for_s = min(SAY_S, deadline_s - time.monotonic())
            with self._shell.changed:
                answer, is_over = self._answer(question, stop, time.monotonic() + for_s)
                if answer is not None or is_over:
                    return answer
                whom_now, in_doubt = whom(), self._same_run.is_in_doubt()
            if time.monotonic() >= deadline_s:
                raise WaitTimeout(f"waited {timeout_s:.0f} s for {whom_now}")
            log.info("waiting for %s", whom_now)
            if in_doubt:
                self._same_run.check()

    def _answer(self, question: Callable[[], T | None], stop: threading.Event, until_s: float) -> tuple[T | None, bool]:
        """Wait for an answer for a while, under the lock; return it, and whether there will be none."""
        while not stop.is_set() and self.finished is None:
            self.check()
            answer = question()
            if answer is not None or time.monotonic() >= until_s:
                return answer, False
            self._shell.changed.wait(TIMER_S * 10)
        self.check()
        return None, True

    def close(self) -> None:
        """Flush and release; idempotent."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(JOIN_S)

    def _drive(self) -> None:
        try:
            self._shell.run(self._stop)
        except Exception as error:  # noqa: BLE001 - it is raised on the thread that waits for us
            self._error = error
        finally:
            self.undelivered = self._shell.close()
            with self._shell.changed:
                self._shell.changed.notify_all()
