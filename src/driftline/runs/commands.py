"""Creates, stops and deletes runs. Where no server is at work to answer, this process serves the run meanwhile."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from driftline.broker.port import Broker
from driftline.consumers.server.serving import serve
from driftline.errors import DriftlineError, RunError, RunRefused, WaitTimeout
from driftline.ledger.entering.checkpoint import enter_ledger
from driftline.ledger.entering.reading import read_present
from driftline.ledger.run_state import RunState
from driftline.producers.proposal import Offer
from driftline.runs.catalogue import members_of, topics_of
from driftline.runs.requests import REFUSED, RunCreator, StopRequester
from driftline.runtime.shell import Shell
from driftline.schemas.effects import Finish

log = logging.getLogger(__name__)

STEP_S = 0.05
LOG_EVERY_S = 3.0
JOIN_S = 20.0

STOP_S = 20.0
"""Seconds that members may take to end before their topics are deleted all the same."""


def create_run(broker: Broker, run: str, offer: Offer, name: str, *, timeout_s: float) -> Finish:
    """Make a run whose topics exist, and return how that went: `CREATED`, or `EXISTS` with the same settings.

    This process serves the run until it has started, in case no other server does.

    Raises:
        RunRefused: a run of this name has other settings or another model; lists the differences.
        WaitTimeout: no server accepted the proposal in time.
    """
    core = RunCreator(offer, os.urandom(16), name, os.urandom(16))
    with _serving(broker, run, f"{name}-server") as check:
        return _answer(Shell(broker, run, core, name), check, timeout_s, f"run {run!r} to be accepted by a server")


def stop_run(broker: Broker, run: str, name: str, reason: str, *, timeout_s: float) -> RunState:
    """End a run at its present head, and return the fold of its ledger.

    If no server is at work on the run, this process serves it meanwhile.

    Raises:
        RunRefused: it has not begun, so there is nothing to end.
        WaitTimeout: no coordinator ended it in time.
    """
    search = enter_ledger(broker, run)
    state = read_present(broker, run, search)
    if state.ended is not None:
        return state
    core = StopRequester(name, reason, search.state())
    what = f"the coordinator of run {run!r} to end it"
    if members_of(broker, run, state).servers:
        _answer(Shell(broker, run, core, name), lambda: None, timeout_s, what)
    else:
        with _serving(broker, run, f"{name}-server") as check:
            _answer(Shell(broker, run, core, name), check, timeout_s, what)
    return core.state


def delete_run(broker: Broker, run: str, sender: str | None = None) -> list[str]:
    """Delete all topics of a run, and return their names.

    Args:
        broker: where they are.
        run: the run's name.
        sender: stops the run first in this name, so that its members know why they end; None if there are none.
    """
    if sender is not None:
        try:
            stop_run(broker, run, sender, "the run is deleted", timeout_s=STOP_S)
        except RunError as error:
            log.warning("run %s is deleted without notice to its members: %s", run, error)
    topics = topics_of(broker, run)
    admin = broker.admin()
    try:
        admin.delete(topics)
    finally:
        admin.close()
    return topics


def _answer(shell: Shell, check: Callable[[], None], timeout_s: float, what: str) -> Finish:
    """Drive a request to its end.

    Args:
        shell: of the request.
        check: raises when the request cannot be answered any more.
        timeout_s: seconds.
        what: the answer, in words.
    """
    deadline_s = time.monotonic() + timeout_s
    log_s = time.monotonic() + LOG_EVERY_S
    try:
        while shell.finished is None:
            shell.step(STEP_S)
            check()
            now_s = time.monotonic()
            if now_s >= deadline_s:
                raise WaitTimeout(f"waited {timeout_s:.0f} s for {what}")
            if now_s >= log_s:
                log_s = now_s + LOG_EVERY_S
                log.info("waiting for %s", what)
    finally:
        shell.close()
    if shell.finished.reason == REFUSED:
        raise RunRefused(shell.finished.failure)
    return shell.finished


@contextmanager
def _serving(broker: Broker, run: str, name: str) -> Iterator[Callable[[], None]]:
    """Serve the run on a thread; yields a function that raises the server's failure, if there is one."""
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
