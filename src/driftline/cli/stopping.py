"""How commands stop: a role ends cleanly when it is asked to, and with the right exit code."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from driftline.errors import DriftlineError

log = logging.getLogger(__name__)

INTERRUPTED = 130
STOP_WITHIN_S = 8.0
"""A role that was asked to stop is ended after this time, whatever it waits for."""


@dataclass(slots=True)
class Stopping:
    """How a role is asked to stop: by signal, or by the end of standard input."""

    event: threading.Event = field(default_factory=threading.Event)
    interrupted: bool = False
    is_member: bool = False

    def begin(self) -> threading.Event:
        """Say that from now on there is something to stop cleanly; return the event that asks for it."""
        self.is_member = True
        return self.event

    def ask(self) -> None:
        """Ask for a clean stop, and make sure that there is an end."""
        if not self.is_member:
            os.write(2, b"driftline: stopped before it began\n")
            os._exit(INTERRUPTED if self.interrupted else 0)
        if not self.event.is_set():
            self.event.set()
            timer = threading.Timer(STOP_WITHIN_S, self._give_up)
            timer.daemon = True
            timer.start()

    def on_signal(self, number: int, _frame: FrameType | None) -> None:
        """Take SIGINT, SIGTERM or SIGHUP; the second SIGINT ends the process at once."""
        if self.event.is_set() and self.interrupted:
            os._exit(INTERRUPTED)
        self.interrupted = self.interrupted or number == signal.SIGINT
        self.ask()

    def watch_stdin(self) -> None:
        """Ask for a stop when standard input ends."""
        while os.read(sys.stdin.fileno(), 4096):
            pass
        self.ask()

    def _give_up(self) -> None:
        os.write(2, f"driftline: not stopped after {STOP_WITHIN_S:.0f} s, ending at once\n".encode())
        os._exit(INTERRUPTED if self.interrupted else 1)


@contextmanager
def stoppable(who: str, *, with_stdin: bool) -> Iterator[Stopping]:
    """Give a role the event that stops it; at the end, Ctrl-C becomes exit code 130, whatever fails on the way out.

    SIGTERM, a service manager's way to stop a process, and SIGHUP, the end of a terminal, end with 0 when the role
    stopped as it should.
    """
    log.info("%s starts (process %d)", who, os.getpid())
    stopping = Stopping()
    if with_stdin:
        threading.Thread(target=stopping.watch_stdin, name="watch stdin", daemon=True).start()
    with handling(stopping.on_signal, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        try:
            yield stopping
        except DriftlineError as error:
            if not stopping.interrupted:
                raise
            log.warning("while stopping: %s", error)
    if stopping.interrupted:
        raise KeyboardInterrupt


@contextmanager
def terminated_is_interrupted() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into `KeyboardInterrupt`, so that a command that unwinds ends its own processes."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with handling(interrupt, signal.SIGTERM, signal.SIGHUP):
        yield


@contextmanager
def handling(handler: Callable[[int, FrameType | None], None], *signals: signal.Signals) -> Iterator[None]:
    """Handle signals, and put the handlers before them in place again at the end.

    A signal that is ignored stays so: `nohup` does that with SIGHUP, and a shell with SIGINT in the background.
    """
    taken = [number for number in signals if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in taken}
    try:
        yield
    finally:
        for number, one in before.items():
            signal.signal(number, one)
