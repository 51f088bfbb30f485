"""Making and ending runs by command: the asking, and a server of our own where there is none to answer."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from driftline.broker.port import Broker
from driftline.consumers.server.serving import serve
from driftline.errors import DriftlineError, RunRefused, WaitTimeout
from driftline.ledger.entering.checkpoint import enter_ledger
from driftline.ledger.entering.reading import read_present
from driftline.ledger.run_state import RunState
from driftline.producers.proposal import Offer
from driftline.runs.asking import REFUSED, Creator, Stopper
from driftline.runs.naming import existing_members
from driftline.runtime.shell import Shell
from driftline.schemas.effects import Finish

log = logging.getLogger(__name__)

STEP_S = 0.05
SAY_AFTER_S = 3.0
JOIN_S = 20.0


def create_run(broker: Broker, run: str, offer: Offer, name: str, *, timeout_s: float) -> Finish:
    """Make a run whose topics exist, and return how that went: `CREATED`, or `EXISTS` with the same settings.

    A server of our own accepts the proposal, unless one of others does first; it ends when the run is made.

    Raises:
        RunRefused: a run of this name has other settings or another model; lists the differences.
        WaitTimeout: no server accepted the proposal in time.
    """
    core = Creator(offer, os.urandom(16), name, os.urandom(16))
    with _serving(broker, run, f"{name}-server") as check:
        return _asked(Shell(broker, run, core, name), check, timeout_s, f"run {run!r} to be accepted by a server")


def stop_run(broker: Broker, run: str, name: str, reason: str, *, timeout_s: float) -> RunState:
    """End a run at its present head, and return the fold of its ledger.

    If nobody serves the run, a server of our own does for as long as it takes.

    Raises:
        RunRefused: it has not begun, so there is nothing to end.
        WaitTimeout: no coordinator ended it in time.
    """
    search = enter_ledger(broker, run)
    state = read_present(broker, run, search)
    if state.ended is not None:
        return state
    alone = not existing_members(broker, run, state).servers
    core = Stopper(name, reason, search.state())
    with _serving(broker, run, f"{name}-server") if alone else _nothing() as check:
        _asked(Shell(broker, run, core, name), check, timeout_s, f"the coordinator of run {run!r} to end it")
    return core.state


def _asked(shell: Shell, check: Callable[[], None], timeout_s: float, what: str) -> Finish:
    deadline_s = time.monotonic() + timeout_s
    say_s = time.monotonic() + SAY_AFTER_S
    try:
        while shell.finished is None:
            shell.step(STEP_S)
            check()
            now_s = time.monotonic()
            if now_s >= deadline_s:
                raise WaitTimeout(f"waited {timeout_s:.0f} s for {what}")
            if now_s >= say_s:
                say_s = now_s + SAY_AFTER_S
                log.info("waiting for %s", what)
    finally:
        shell.close()
    if shell.finished.reason == REFUSED:
        raise RunRefused(shell.finished.failure)
    return shell.finished


@contextmanager
def _serving(broker: Broker, run: str, name: str) -> Iterator[Callable[[], None]]:
    """Be a server of the run on a thread; yields what raises when that went wrong."""
    stop, failures = threading.Event(), list[DriftlineError]()

    def work() -> None:
        try:
            serve(broker, run, name, stop=stop, patience_s=JOIN_S)
        except DriftlineError as error:
            failures.append(error)

    def check() -> None:
        if failures:
            raise failures[0]

    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    try:
        yield check
    finally:
        stop.set()
        thread.join(JOIN_S)


@contextmanager
def _nothing() -> Iterator[Callable[[], None]]:
    yield lambda: None
