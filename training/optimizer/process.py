"""What the optimizers of one process share: a list of them, and the handler of SIGTERM and SIGHUP.

The list is for a notebook's cell that is run again, and for a model that is given to two optimizers.

Python's own way with SIGTERM is to end at once. Then the run waits for the worker until it has been silent for too
long. So a script that has no handler of its own gets one while it is a member of a run: it raises `SystemExit` where
the script is, as Ctrl-C raises KeyboardInterrupt, and sees to it that the process ends in time whatever it waits for.
"""

import logging
import os
import signal
import threading
import weakref
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Protocol

from torch import nn

from driftline.errors import UsageError

log = logging.getLogger(__name__)

MOST_SHOWN = 5
"""Parameters that a message names."""

SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""That end a process unless it handles them: a service manager's, and that of a terminal which is closed."""

END_WITHIN_S = 8.0
"""After so long the process is ended, whatever it waits for."""


class Registered(Protocol):
    """What the registry knows of an optimizer."""

    address: str
    worker: str
    fingerprint: bytes

    def names_of(self, parameters: Iterable[nn.Parameter]) -> list[str]:
        """Return the names under which it trains any of these."""
        ...

    def give_way(self) -> None:
        """Close it: a newer one takes its place."""
        ...


_known: "weakref.WeakSet[Registered]" = weakref.WeakSet()
_pid = os.getpid()


def register(one: Registered) -> None:
    """Add an optimizer that has become a member."""
    _of_this_process().add(one)


def unregister(one: Registered) -> None:
    """Take one out that is closed. Idempotent."""
    _of_this_process().discard(one)


def make_room(address: str, worker: str, fingerprint: bytes, parameters: Iterable[nn.Parameter]) -> str:
    """Close the optimizer whose place a new one takes, as when a notebook's cell is run again.

    Args:
        address: of the run: Kafka's address and its name.
        worker: the new one's name.
        fingerprint: of the new one's layout.
        parameters: of the new one's model.

    Returns:
        A message for the log; empty when there was none.

    Raises:
        UsageError: the older one trains another model in the same run, or this model in another run.
    """
    wanted = list(parameters)
    message = ""
    for old in list(_of_this_process()):
        if (old.address, old.worker) == (address, worker):
            if old.fingerprint != fingerprint:
                raise UsageError(
                    f"this process already trains another model in run {address} as worker {worker!r}: several "
                    f"optimizers need a run each, because a run is one model and one update rule"
                )
            old.give_way()
            message = f"an earlier Optimizer of worker {worker!r} in this process was closed; the new one replaces it"
    for old in list(_of_this_process()):
        shared = old.names_of(wanted)
        if shared:
            raise UsageError(
                f"parameters {', '.join(shared[:MOST_SHOWN])}{' …' if len(shared) > MOST_SHOWN else ''} "
                f"belong to another Optimizer of this process already (run {old.address}, worker {old.worker!r}); a "
                f"run holds whole models, so two optimizers need two models, or close() the other one first"
            )
    return message


def _of_this_process() -> "weakref.WeakSet[Registered]":
    """What was registered before a fork belongs to the parent."""
    global _known, _pid
    if _pid != os.getpid():
        _known, _pid = weakref.WeakSet(), os.getpid()
    return _known


class Termination:
    """A handler of SIGTERM and SIGHUP for as long as an optimizer needs it.

    Args:
        end: ends the process at once, with an exit code.
        within_s: seconds that the script may take to end.
    """

    def __init__(self, end: Callable[[int], object] = os._exit, within_s: float = END_WITHIN_S) -> None:
        self._end = end
        self._within_s = within_s
        self._users = 0
        self._is_asked = False
        self._knows_forks = False
        self._pid = os.getpid()
        self._code = 0

    @property
    def is_asked(self) -> bool:
        """Whether one of them has come."""
        return self._is_asked

    def hold(self) -> None:
        """Handle the signals from now on, unless the script does so itself, or this is not its main thread.

        A signal that is ignored stays so, as under `nohup`. In a child that is forked off nothing is handled: the run
        is its parent's.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        self._pid = os.getpid()
        if not self._knows_forks:
            self._knows_forks = True
            os.register_at_fork(after_in_child=self._reset)
        for number in SIGNALS:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, self._on_signal)
        self._users += 1

    def release(self) -> None:
        """Leave the signals to Python again once no optimizer needs this; a handler of the script stays."""
        self._users = max(0, self._users - 1)
        if not self._users and threading.current_thread() is threading.main_thread():
            self._reset()

    def _reset(self) -> None:
        for number in SIGNALS:
            if signal.getsignal(number) == self._on_signal:
                signal.signal(number, signal.SIG_DFL)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if os.getpid() != self._pid:  # in a child, before it was reset there
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self._code = 128 + number  # what shells and service managers take for "ended by this signal"
        if self._is_asked:
            self._end(self._code)
        self._is_asked = True
        log.warning("%s: the script ends here, and leaves its run", signal.Signals(number).name)
        timer = threading.Timer(self._within_s, self._give_up)
        timer.daemon = True
        timer.start()
        raise SystemExit(self._code)

    def _give_up(self) -> None:
        os.write(2, f"driftline: not ended {self._within_s:g} s after a signal to end, ending at once\n".encode())
        self._end(self._code)


TERMINATION = Termination()
"""Of this process."""
