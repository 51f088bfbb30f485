"""A whole run on one machine: servers and workers as processes, the evaluator and the progress in this process.

Servers start first, then workers, then torch in this process, because every worker needs seconds to import torch, too.
The launcher creates nothing in Kafka: the first worker does that when it knows that the task can be trained.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from driftline.broker.port import Broker, Reader, Record, Start
from driftline.broker.topics import Stream, topic_name
from driftline.errors import DriftlineError, IntegrityError, RunError, RunRefused
from driftline.launch.chaos import Chaos, Disturbance
from driftline.launch.disk_watch import DiskWatch
from driftline.launch.exits import ExitReporter
from driftline.launch.faults import Fault
from driftline.launch.nodes import Nodes
from driftline.launch.plan import Plan
from driftline.launch.processes import Child, Children
from driftline.observe.run.progress import Progress, ProgressTracker
from driftline.observe.run.recent_events import RecentEvents
from driftline.producers.member import new_mark
from driftline.runtime.outcome import check_finish
from driftline.telemetry.exporting import exporting

if TYPE_CHECKING:
    from driftline.ledger.run_state import RunState
    from driftline.schemas.effects import Finish
    from driftline.training.task import Task

T = TypeVar("T")

log = logging.getLogger(__name__)

POLL_S = 0.1
"""Seconds between two checks of processes and progress."""

RECENT_MS = 3_000
"""Workers with a heartbeat in this time count for the waiting share."""

END_WAIT_S = 15.0
"""Seconds that processes may take to end by themselves after the run has ended."""

END_STEPS = (("worker", 2.0), ("server", 4.0))
"""Roles to end, and seconds before the next step. Workers end first, so that servers still read that they leave."""

EVALUATOR_WAIT_S = 1.5
"""Seconds that the evaluator may take to read from the ledger why processes have ended."""

ALONE_S = 20.0
"""Seconds that the run may go on without any server, or without any worker, of this command."""

_ERRORS: Mapping[int, type[DriftlineError]] = {2: RunRefused, 3: IntegrityError}


def in_background(work: Callable[[], T], name: str) -> "Future[T]":
    """Start work on a thread that never keeps this process alive."""
    future = Future[T]()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - `Future.result` raises it
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


class Launcher:
    """Runs one plan.

    Args:
        broker: the Kafka of the plan.
        plan: what to start.
        load_task: becomes the task, on another thread while processes start, because it imports torch.
        show: receives every new `Progress`.
        say: receives a line about each event of a process.
        faults: that happen to processes on purpose.
        nodes: of the broker, if faults may happen to them.
        disk: of the broker.
    """

    def __init__(
        self,
        broker: Broker,
        plan: Plan,
        *,
        load_task: "Future[Task]",
        show: Callable[[Progress], None],
        say: Callable[[str], None],
        faults: Sequence[Fault] = (),
        nodes: Nodes | None = None,
        disk: DiskWatch | None = None,
    ) -> None:
        self._broker = broker
        self._plan = plan
        self._task = load_task
        self._show = show
        self._say = say
        self._stop = threading.Event()
        self._children = Children(plan.logs, plan.environment)
        self._tracker = ProgressTracker(plan.settings.run)
        self._events = RecentEvents()
        self._evaluation: Future[tuple[Finish, RunState]] | None = None
        self._alone_since_s: float | None = None
        self._disk, self._has_told_disk_use = disk or DiskWatch(None), False
        self._exits = ExitReporter(broker, plan.settings.run)
        self._chaos = Chaos(
            broker, plan.settings.run, faults, children=self._children, start_process=self._start_one, nodes=nodes,
            say=say,
        )  # fmt: skip

    @property
    def disturbances(self) -> Sequence[Disturbance]:
        """What became of the faults."""
        return self._chaos.disturbances

    def run(self) -> "RunState":
        """Train until the run ends, well or not, and return the fold of its ledger.

        Raises:
            RunError: too few processes are left.
            IntegrityError: the log contradicts itself.
            RunRefused: the run exists with other settings.
            KeyboardInterrupt: Ctrl-C. All processes have ended by then.
        """
        try:
            self._start()
            finish, state = self._train()
            self._tracker.update(state)
            self._show(self._progress())
            if state.ended is None:
                check_finish(finish)
            self._wait_for_ends(finish)
        except KeyboardInterrupt:
            self._say("stopping the workers, then the servers; Ctrl-C ends them at once")
            if self._tracker.run_uuid is not None and self._tracker.newest.phase != "ended":
                run = self._plan.settings.run
                self._say(f"run {run} has not ended: --run {run}, with the same settings, goes on with it")
            raise
        finally:
            self._end()
        return state

    # -- processes ---------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        for name in self._plan.servers:
            self._start_one(name, "server")
        for name in self._plan.workers:
            self._start_one(name, "worker")
        self._chaos.start()

    def _start_one(self, name: str, role: str) -> Child:
        if role == "server":
            return self._children.start(name, role, self._plan.server_command(name))
        mark = new_mark()
        return self._children.start(name, role, self._plan.worker_command(name, mark), mark)

    def _wait_for_ends(self, finish: "Finish") -> None:
        """Wait for the processes, which end by themselves when the run is over."""
        self._chaos.stop()
        if not finish.failure:
            self._children.wait(END_WAIT_S)
        for child in self._children.newly_ended():
            if child.code and not child.disturbed:
                self._say(f"{child.name} {child.ending()} after the run; its log is {child.log}")

    def _end(self) -> None:
        self._stop.set()
        self._chaos.stop()
        for child in self._children.end(END_STEPS):
            self._say(f"{child.name} did not end when asked to and was killed; its log is {child.log}")
        self._exits.close()
        if self._evaluation is not None:
            wait([self._evaluation], EVALUATOR_WAIT_S)

    def _check_children(self) -> None:
        for child in self._children.newly_ended():
            if child.code and not child.disturbed and not (self._is_alone() and self._evaluator_knows_why()):
                self._report_exit(child)
        if self._tracker.run_uuid is not None:
            self._exits.report_exits(self._tracker.run_uuid, self._tracker.newest.members, self._children.ended_marks())
        self._check_alone()

    def _is_alone(self) -> bool:
        return not (self._children.living("server") and self._children.living("worker"))

    def _evaluator_knows_why(self) -> bool:
        """Whether the ledger says that the run is over: its reason is better than that of a process."""
        return self._evaluation is not None and bool(wait([self._evaluation], EVALUATOR_WAIT_S).done)

    def _check_alone(self) -> None:
        """Give up when all servers, or all workers, have ended well without an end of the run: they were stopped."""
        now_s = time.monotonic()
        if not self._is_alone() or self._chaos.is_undoing:
            self._alone_since_s = None
        elif self._alone_since_s is None:
            self._alone_since_s = now_s
        elif now_s - self._alone_since_s > ALONE_S:
            role = "worker" if self._children.living("server") else "server"
            raise RunError(f"every {role} of this command was stopped before the run ended; it goes no further here")

    def _report_exit(self, child: Child) -> None:
        left = self._children.living(child.role)
        members = self._tracker.newest
        log.info("%s %s", child.name, child.ending())
        if not left and not self._chaos.is_undoing:
            raise _error(child, f"no {child.role} of this command is left, so the run cannot go on")
        if child.role == "worker" and not members.version and members.workers < self._plan.settings.workers:
            raise _error(child, f"the run cannot start without its {self._plan.settings.workers} workers")
        others = ", ".join(one.name for one in left) or "the run"
        self._say(
            f"{child.name} {child.ending()}; {others} {_goes_on(left)} without it "
            f"(this release does not start it again). The end of its log, {child.log}:\n{_indented(child.tail(5))}"
        )

    # -- training ----------------------------------------------------------------------------------------------------

    def _train(self) -> "tuple[Finish, RunState]":
        self._evaluation = in_background(self._evaluate, "evaluator")
        self._wait_for(self._task)
        return self._wait_for(self._evaluation)

    def _evaluate(self) -> "tuple[Finish, RunState]":
        from driftline.consumers.server.serving import wait_for_run  # noqa: PLC0415 - see the top of this module
        from driftline.training.task.evaluating import evaluate_run  # noqa: PLC0415 - ditto

        run, name = self._plan.settings.run, self._plan.evaluator
        with exporting(self._plan.addresses().get(name), run=run, role="evaluator", member=name) as watch_metrics:
            wait_for_run(self._broker, run, stop=self._stop, patience_s=float("inf"))
            return evaluate_run(
                self._broker, run, name, self._loaded_task,
                stop=self._stop, watch=self._tracker.update, watch_metrics=watch_metrics,
            )  # fmt: skip

    def _loaded_task(self) -> "Task":
        while not wait([self._task], POLL_S).done:
            if self._stop.is_set():
                raise RunError("stopped while the task was loaded")
        return self._task.result()

    def _wait_for(self, work: "Future[T]") -> T:
        reader: Reader | None = None
        try:
            while not wait([work], POLL_S).done:
                self._check_children()
                if reader is None and self._tracker.run_uuid is not None:
                    reader = self._open_events(self._tracker.run_uuid)
                if reader is not None:
                    self._read_events(reader)
                self._show(self._progress())
        finally:
            if reader is not None:
                reader.close()
        self._show(self._progress())
        return work.result()

    def _open_events(self, run_uuid: bytes) -> Reader:
        self._events = RecentEvents(run_uuid)
        reader = self._broker.reader()
        reader.read(topic_name(self._plan.settings.run, Stream.EVENTS), 0, Start.END)
        return reader

    def _read_events(self, reader: Reader) -> None:
        until_s = time.monotonic() + POLL_S
        while (record := reader.poll(0.0)) is not None and time.monotonic() < until_s:
            if isinstance(record, Record):
                self._events.read(record.value, record.timestamp_ms)

    def _progress(self) -> Progress:
        seen = self._tracker.newest
        if seen.disk and not self._has_told_disk_use:
            self._has_told_disk_use = True
            self._say(seen.disk)
        if warning := self._disk.look(seen, time.monotonic()):
            self._say(warning)
        return replace(seen, waiting_share=self._events.waiting_share(self._events.newest_ms - RECENT_MS))


def _error(child: Child, consequence: str) -> DriftlineError:
    kind = _ERRORS.get(child.code or 1, RunError)
    return kind(
        f"{child.name} {child.ending()}: {consequence}. The end of its log, {child.log}:\n{_indented(child.tail())}"
    )


def _goes_on(left: list[Child]) -> str:
    return "goes on" if len(left) <= 1 else "go on"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines()) or "  (empty)"
