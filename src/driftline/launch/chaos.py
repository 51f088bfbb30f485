"""Carries a script of faults out: on the processes of a launcher and the nodes of its broker, and on nobody else.

A thread of its own follows the ledger, so that a fault comes as soon as its version is there. What undoes a fault is
done on a thread each, because a broker takes seconds to start.
"""

import logging
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from driftline.broker.port import Broker
from driftline.consumers.server.serving import wait_for_run
from driftline.errors import BrokerError, BrokerUnreachable, EmbeddedBrokerError
from driftline.launch.chaos_nodes import Nodes
from driftline.launch.faults import COORDINATOR, EVERYTHING, SERVERS, WORKERS, Action, Fault
from driftline.launch.ledger_watch import LedgerHead, LedgerWatch
from driftline.launch.processes import Child, Children

log = logging.getLogger(__name__)

SIGNALS: Final = {Action.KILL: signal.SIGKILL, Action.STOP: signal.SIGTERM, Action.PAUSE: signal.SIGSTOP}
LOOK_S: Final = 0.05
END_WAIT_S: Final = 15.0
"""How long a process that was asked to end may take, before it is killed and started again."""

Start = Callable[[str, str], Child]
"""(name, role) → a process that was started."""


@dataclass(slots=True)
class Disturbance:
    """A fault of the script, and what became of it.

    Attributes:
        version: that the ledger had when it happened; None if it has not.
        at_s: when it happened, by the monotonic clock.
        hit: names of the processes that it happened to.
        undone_s: seconds from the fault to the moment at which it was undone; None if it was not.
        failure: why it could not be undone.
    """

    fault: Fault
    version: int | None = None
    at_s: float | None = None
    hit: tuple[str, ...] = ()
    undone_s: float | None = None
    failure: str = ""

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON takes it."""
        return {
            "fault": str(self.fault),
            "version": self.version,
            "hit": list(self.hit),
            "undone_s": self.undone_s,
            "failure": self.failure,
        }

    def __str__(self) -> str:
        """Say it to a person."""
        if self.version is None:
            return f"{self.fault}: did not happen, the run was over before"
        done = "undone never" if self.undone_s is None else f"undone after {self.undone_s:.1f} s"
        whom = ", ".join(self.hit) or "nobody: none of them was running"
        return f"{self.fault}: at version {self.version}, {whom}; {self.failure or done}"


@dataclass(slots=True)
class _Victims:
    """Whom a fault happened to."""

    children: list[Child] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)


class Chaos:
    """One script on one run.

    Args:
        broker: where the run's topics are, or will be.
        run: the run's name.
        faults: of the script, by version.
        children: the processes.
        start: starts one of them again.
        nodes: of the broker; None if they are not ours.
        say: told what happens.
    """

    def __init__(
        self,
        broker: Broker,
        run: str,
        faults: Sequence[Fault],
        *,
        children: Children,
        start: Start,
        nodes: Nodes | None,
        say: Callable[[str], None],
    ) -> None:
        self._broker, self._run, self._children, self._start = broker, run, children, start
        self._nodes, self._say = nodes, say
        self.disturbances = [Disturbance(fault) for fault in faults]
        self._stop = threading.Event()
        self._paused: list[Child] = []
        self._paused_nodes: list[str] = []
        self._undoing: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._follow, name="chaos", daemon=True)

    def begin(self) -> None:
        """Follow the run from now on."""
        self._thread.start()

    @property
    def is_undoing(self) -> bool:
        """Whether something that ended is to be started again."""
        return any(thread.is_alive() for thread in self._undoing)

    def end(self) -> None:
        """Disturb and start nothing any more, and let go on what stands still."""
        self._stop.set()
        for thread in (self._thread, *self._undoing):
            if thread.is_alive():
                thread.join()
        for child in self._paused:
            child.process.send_signal(signal.SIGCONT)
        for name in self._paused_nodes:
            if self._nodes is not None:
                self._nodes.signal(name, signal.SIGCONT)

    # -- the thread that follows -------------------------------------------------------------------------------------

    def _follow(self) -> None:
        try:
            if not wait_for_run(self._broker, self._run, stop=self._stop, patience_s=float("inf")):
                return
            with closing(LedgerWatch(self._broker, self._run)) as watch:
                self._let_happen(watch)
        except BrokerError as error:
            self._say(f"no more faults: {error}")

    def _let_happen(self, watch: LedgerWatch) -> None:
        waiting = list(self.disturbances)
        while waiting and not self._stop.is_set() and not watch.head.ended:
            watch.look(LOOK_S)
            due = [one for one in waiting if watch.head.version >= one.fault.version]
            del waiting[: len(due)]
            # All are found before any is disturbed: a dead leader cannot be asked who the controller is.
            for one, victims in [(one, self._find(one.fault, watch.head)) for one in due]:
                self._happen(one, victims, watch.head.version)

    def _happen(self, one: Disturbance, victims: _Victims, version: int) -> None:
        number, began_s = SIGNALS[one.fault.action], time.monotonic()
        victims.children = [child for child in victims.children if child.code is None and not child.disturbed]
        for child in victims.children:
            child.disturbed = one.fault.action is not Action.PAUSE
            child.process.send_signal(number)
        if self._nodes is not None:
            victims.nodes = [name for name in victims.nodes if self._nodes.signal(name, number)]
        hit = (*(child.name for child in victims.children), *victims.nodes)
        one.version, one.at_s, one.hit = version, began_s, hit
        log.info("%s at version %d: %s", one.fault, version, ", ".join(hit))
        self._say(f"{one.fault}: {', '.join(hit) or 'nobody is there'}")
        if one.fault.action is Action.PAUSE:
            self._paused += victims.children
            self._paused_nodes += victims.nodes
        if one.fault.for_s is not None and hit:
            thread = threading.Thread(target=self._undo, args=(one, victims, began_s), daemon=True, name="undo")
            self._undoing.append(thread)
            thread.start()

    def _find(self, fault: Fault, head: LedgerHead) -> _Victims:
        """Find whom a fault means now, of those that live."""
        words = {COORDINATOR: head.coordinator}.get(fault.target, fault.target)
        whole = {SERVERS: "server", WORKERS: "worker"}.get(words)
        living = self._children.living()
        children = [one for one in living if words in (one.name, EVERYTHING) or one.role == whole]
        nodes = [] if self._nodes is None or not fault.needs_broker else self._nodes.found(fault.target)
        return _Victims(children, nodes)

    # -- the threads that undo ---------------------------------------------------------------------------------------

    def _undo(self, one: Disturbance, victims: _Victims, began_s: float) -> None:
        if one.fault.for_s is None or self._stop.wait(one.fault.for_s):
            return
        try:
            if one.fault.action is Action.PAUSE:
                self._let_go_on(victims)
            else:
                self._start_again(victims)
        except (EmbeddedBrokerError, OSError) as error:
            one.failure = str(error)
            self._say(f"{one.fault} could not be undone: {error}")
            return
        one.undone_s = time.monotonic() - began_s

    def _let_go_on(self, victims: _Victims) -> None:
        for child in victims.children:
            child.process.send_signal(signal.SIGCONT)
        for name in victims.nodes:
            if self._nodes is not None:
                self._nodes.signal(name, signal.SIGCONT)

    def _start_again(self, victims: _Victims) -> None:
        if victims.nodes and self._nodes is not None:
            self._nodes.revive(victims.nodes)
        for child in victims.children:
            self._wait_for_end(child)
        while victims.children and not self._stop.is_set() and not self._kafka_answers():
            self._stop.wait(LOOK_S)
        for child in victims.children:
            if not self._stop.is_set():
                self._start(child.name, child.role)

    @staticmethod
    def _wait_for_end(child: Child) -> None:
        deadline_s = time.monotonic() + END_WAIT_S
        while child.code is None:
            if time.monotonic() > deadline_s:
                child.process.kill()
            time.sleep(LOOK_S)

    def _kafka_answers(self) -> bool:
        """Whether whoever starts now finds its Kafka."""
        try:
            self._broker.check(2.0)
        except BrokerUnreachable:
            return False
        return True
