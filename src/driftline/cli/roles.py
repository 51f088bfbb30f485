"""What the roles share: they run in the foreground, stop cleanly when asked to, and end with the right code."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, TypeVar

import click

from driftline.cli.options import setting
from driftline.config.keys import METRICS, PATIENCE
from driftline.errors import DriftlineError

Command = TypeVar("Command", bound=Callable[..., Any])

log = logging.getLogger(__name__)

INTERRUPTED = 130
STOP_WITHIN_S = 8.0
"""After so long a role that was asked to stop is ended, whatever it waits for."""


def role_options(command: Command) -> Command:
    """Add the options of a single role."""
    patience, metrics = setting(PATIENCE), setting(METRICS)
    tied = click.option(
        "--stop-with-stdin", is_flag=True, help="Stop when standard input ends, that is, with whoever started this."
    )
    decorated: Command = patience(metrics(tied(command)))
    return decorated


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
        """Ask for a clean stop, and see to it that there is an end."""
        if not self.is_member:
            os.write(2, b"driftline: stopped before it began\n")
            os._exit(INTERRUPTED if self.interrupted else 0)
        if not self.event.is_set():
            self.event.set()
            timer = threading.Timer(STOP_WITHIN_S, self._give_up)
            timer.daemon = True
            timer.start()

    def on_signal(self, number: int, _frame: FrameType | None) -> None:
        """Take SIGINT or SIGTERM; the second one ends the process at once."""
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
    """Give a role what tells it to stop; at the end, Ctrl-C becomes exit code 130, whatever goes wrong on the way out.

    SIGTERM, a service manager's way to stop us, ends with 0 when the role stopped as it should.
    """
    show_log()
    log.info("%s starts (process %d)", who, os.getpid())
    stopping = Stopping()
    before = {number: signal.signal(number, stopping.on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    if with_stdin:
        threading.Thread(target=stopping.watch_stdin, name="watch stdin", daemon=True).start()
    try:
        yield stopping
    except DriftlineError as error:
        if not stopping.interrupted:
            raise
        log.warning("while stopping: %s", error)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if stopping.interrupted:
        raise KeyboardInterrupt


def show_log() -> None:
    """Let a role in the foreground say what it does and whom it waits for."""
    logger = logging.getLogger("driftline")
    logger.setLevel(min(logger.getEffectiveLevel(), logging.INFO))
