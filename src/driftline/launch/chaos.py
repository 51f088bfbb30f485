"""Carries out a script of faults on processes that this command started and on nodes of its broker, and on no others.

One thread follows the ledger, so that a fault happens as soon as its version is there. Each fault is undone on a thread
of its own, because a broker takes seconds to start.
"""

import logging
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from driftline.broker.port import Broker, Record
from driftline.broker.topics import Stream, topic_name
from driftline.consumers.server.serving import wait_for_run
from driftline.errors import BrokerUnreachable, DriftlineError, EmbeddedBrokerError
from driftline.launch.faults import COORDINATOR, EVERYTHING, SERVERS, WORKERS, Action, Fault
from driftline.launch.nodes import Nodes
from driftline.launch.processes import Child, Children
from driftline.ledger.run_state import RunState
from driftline.schemas.records import TermStart

log = logging.getLogger(__name__)

SIGNALS: Final = {Action.KILL: signal.SIGKILL, Action.STOP: signal.SIGTERM, Action.PAUSE: signal.SIGSTOP}
POLL_S: Final = 0.05
END_WAIT_S: Final = 15.0
"""Seconds that a process may take to end after SIGTERM, before it is killed and started again."""

StartProcess = Callable[[str, str], Child]
"""(name, role) → a process that was started."""


class LedgerWatch:
    """Follows the ledger of a run whose topics exist. Used by one thread.

    Attributes:
        state: fold of the ledger.
        coordinator: name of the server that leads the present term; empty before the first.

    Raises:
        TopicMissing: the run does not exist.
    """

    def __init__(self, broker: Broker, run: str) -> None:
        self.state = RunState()
        self.coordinator = ""
        self._reader = broker.reader()
        self._reader.read(topic_name(run, Stream.LEDGER), 0, 0)

    @property
    def version(self) -> int:
        """The newest version; -1 before the start of the run."""
        return self.state.version if self.state.has_begun else -1

    def poll(self, timeout_s: float) -> bool:
        """Wait for the next record; return whether it counts.

        Raises:
            BrokerError: the ledger cannot be read any more.
            IntegrityError: the ledger contradicts itself.
        """
        found = self._reader.poll(timeout_s)
        folded = self.state.read(found.offset, found.value) if isinstance(found, Record) else None
        if folded is not None and isinstance(folded.record, TermStart):
            self.coordinator = folded.record.coordinator
        return folded is not None and folded.record is not None

    def close(self) -> None:
        """Release the client."""
        self._reader.close()


@dataclass(slots=True)
class Disturbance:
    """A fault of the script, and what became of it.

    Attributes:
        version: of the ledger when it happened; None if it has not happened.
        at_s: when it happened, by the monotonic clock.
        hit: names of the processes that it happened to.
        undone_s: seconds from the fault until it was undone; None if it was not.
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
        """Describe it in one line."""
        if self.version is None:
            return f"{self.fault}: did not happen, the run was over before"
        undone = "never undone" if self.undone_s is None else f"undone after {self.undone_s:.1f} s"
        names = ", ".join(self.hit) or "no process: none of them was running"
        return f"{self.fault}: at version {self.version}, {names}; {self.failure or undone}"


@dataclass(slots=True)
class _Targets:
    """Processes that a fault happens to."""

    children: list[Child] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)


class Chaos:
    """One script on one run.

    Args:
        broker: where the run's topics are, or will be.
        run: the run's name.
        faults: of the script, by version.
        children: the processes.
        start_process: starts one of them again.
        nodes: of the broker; None if they are not ours.
        say: receives a line for each event.
    """

    def __init__(
        self,
        broker: Broker,
        run: str,
        faults: Sequence[Fault],
        *,
        children: Children,
        start_process: StartProcess,
        nodes: Nodes | None,
        say: Callable[[str], None],
    ) -> None:
        self._broker, self._run, self._children, self._start_process = broker, run, children, start_process
        self._nodes, self._say = nodes, say
        self.disturbances = [Disturbance(fault) for fault in faults]
        self._stop = threading.Event()
        self._paused: list[_Targets] = []
        self._undoing: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._follow, name="chaos", daemon=True)

    def start(self) -> None:
        """Follow the run from now on, if there are faults."""
        if self.disturbances:
            self._thread.start()

    @property
    def is_undoing(self) -> bool:
        """Whether a process that ended will be started again."""
        return any(thread.is_alive() for thread in self._undoing)

    def stop(self) -> None:
        """End all threads, and resume everything that is paused."""
        self._stop.set()
        for thread in (self._thread, *self._undoing):
            if thread.is_alive():
                thread.join()
        for targets in self._paused:
            self._signal(targets, signal.SIGCONT)

    # -- the thread that follows the ledger --------------------------------------------------------------------------

    def _follow(self) -> None:
        try:
            if not wait_for_run(self._broker, self._run, stop=self._stop, patience_s=float("inf")):
                return
            with closing(LedgerWatch(self._broker, self._run)) as watch:
                self._disturb(watch)
        except DriftlineError as error:
            self._say(f"no more faults: {error}")

    def _disturb(self, watch: LedgerWatch) -> None:
        waiting = list(self.disturbances)
        while waiting and not self._stop.is_set() and watch.state.ended is None:
            watch.poll(POLL_S)
            due = [one for one in waiting if watch.version >= one.fault.version]
            del waiting[: len(due)]
            # Find all targets before the first signal: a dead leader cannot say which node is the controller.
            for one, targets in [(one, self._find(one.fault, watch.coordinator)) for one in due]:
                self._apply(one, targets, watch.version)

    def _find(self, fault: Fault, coordinator: str) -> _Targets:
        """Find the living processes that a fault happens to."""
        name = coordinator if fault.target == COORDINATOR else fault.target
        role = {SERVERS: "server", WORKERS: "worker"}.get(fault.target)
        children = [one for one in self._children.living() if (name in (one.name, EVERYTHING) or one.role == role)]
        return _Targets(children, self._nodes.find(fault.target) if self._nodes and fault.needs_broker else [])

    def _apply(self, one: Disturbance, targets: _Targets, version: int) -> None:
        action, began_s = one.fault.action, time.monotonic()
        targets.children = [child for child in targets.children if child.code is None and not child.disturbed]
        for child in targets.children:
            child.disturbed = action is not Action.PAUSE
        targets.nodes = self._signal(targets, SIGNALS[action])
        one.at_s, one.hit = began_s, (*(child.name for child in targets.children), *targets.nodes)
        log.info("%s at version %d: %s", one.fault, version, ", ".join(one.hit))
        self._say(f"{one.fault}: {', '.join(one.hit) or 'no such process is running'}")
        if action is Action.PAUSE:
            self._paused.append(targets)
        if one.fault.for_s is not None and one.hit:
            undo = threading.Thread(target=self._undo, args=(one, targets, one.fault.for_s), daemon=True, name="undo")
            self._undoing.append(undo)
            undo.start()
        one.version = version  # last: then it has happened, and `is_undoing` is right

    def _signal(self, targets: _Targets, number: signal.Signals) -> list[str]:
        """Signal all targets; return the nodes that were running."""
        for child in targets.children:
            child.process.send_signal(number)
        return [name for name in targets.nodes if self._nodes and self._nodes.signal(name, number)]

    # -- the threads that undo ---------------------------------------------------------------------------------------

    def _undo(self, one: Disturbance, targets: _Targets, for_s: float) -> None:
        if self._stop.wait(for_s):
            return
        try:
            if one.fault.action is Action.PAUSE:
                self._signal(targets, signal.SIGCONT)
            else:
                self._restart(targets)
        except (EmbeddedBrokerError, OSError) as error:
            one.failure = str(error)
            self._say(f"{one.fault} could not be undone: {error}")
            return
        one.undone_s = time.monotonic() - (one.at_s or 0.0)

    def _restart(self, targets: _Targets) -> None:
        if targets.nodes and self._nodes:
            self._nodes.revive(targets.nodes)
        for child in targets.children:
            self._wait_for_end(child)
        while targets.children and not self._stop.is_set() and not self._is_kafka_reachable():
            self._stop.wait(POLL_S)
        for child in targets.children:
            if not self._stop.is_set():
                self._start_process(child.name, child.role)

    @staticmethod
    def _wait_for_end(child: Child) -> None:
        deadline_s = time.monotonic() + END_WAIT_S
        while child.code is None:
            if time.monotonic() > deadline_s:
                child.process.kill()
            time.sleep(POLL_S)

    def _is_kafka_reachable(self) -> bool:
        try:
            self._broker.check(2.0)
        except BrokerUnreachable:
            return False
        return True
