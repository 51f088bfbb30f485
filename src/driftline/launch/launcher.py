"""A whole run on one machine: servers and workers as processes, the evaluator and the progress in this one.

Order of things: servers, then workers, then torch in this process, because every worker needs seconds to import it too.
Nothing is created in Kafka here: the first worker does that, once it knows that the task can be trained.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from driftline.broker.port import Broker, Reader, Record, Start
from driftline.broker.topics import Stream, topic_name
from driftline.errors import DriftlineError, IntegrityError, RunError, RunRefused
from driftline.launch.background import Background
from driftline.launch.chaos import Chaos, Disturbance
from driftline.launch.chaos_nodes import Nodes
from driftline.launch.disk_watch import DiskWatch
from driftline.launch.exits import Farewells
from driftline.launch.faults import Fault
from driftline.launch.plan import Plan
from driftline.launch.processes import Child, Children
from driftline.observe.run.live import Live
from driftline.observe.run.progress import Progress, Watching
from driftline.producers.incarnations import new_mark
from driftline.runtime.outcome import check_finish
from driftline.telemetry.exporting import exporting

if TYPE_CHECKING:
    from driftline.ledger.run_state import RunState
    from driftline.schemas.effects import Finish
    from driftline.training.task import Task

T = TypeVar("T")

log = logging.getLogger(__name__)

LOOK_S = 0.1
"""Seconds between two looks at processes and progress."""

RECENT_MS = 3_000
"""A worker that was heard in this time counts for the waiting share."""

END_WAIT_S = 15.0
"""How long processes may take to end by themselves after the run has ended."""

ENDING = (("worker", 2.0), ("server", 4.0))
"""Who is asked to end, and how long before the next step. Workers come first, so that servers still hear them leave."""

EVALUATOR_WAIT_S = 1.5
"""How long the evaluator may take to learn what its processes know."""

ALONE_S = 20.0
"""How long the run may go on without any server, or without any worker, of ours."""

_ERRORS: Mapping[int, type[DriftlineError]] = {2: RunRefused, 3: IntegrityError}


class Launcher:
    """Runs one plan.

    Args:
        broker: the Kafka of the plan.
        plan: what to start.
        load_task: makes the task; called on another thread while processes start, because it imports torch.
        show: given every new `Progress`.
        say: told what happens to processes.
        faults: what happens to them on purpose.
        nodes: of the broker, if they may be disturbed.
        disk: of the broker.
    """

    def __init__(
        self,
        broker: Broker,
        plan: Plan,
        *,
        load_task: "Background[Task]",
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
        self._watching = Watching(plan.settings.run)
        self._live = Live()
        self._evaluating: Background[tuple[Finish, RunState]] | None = None
        self._alone_since_s: float | None = None
        self._disk, self._disk_is_said = disk or DiskWatch(None), False
        self._farewells = Farewells(broker, plan.settings.run)
        self._chaos = Chaos(
            broker, plan.settings.run, faults, children=self._children, start=self._start_one, nodes=nodes, say=say
        )

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
            self._watching.look(state)
            self._show(self._progress())
            if state.ended is None:
                check_finish(finish)
            self._after(finish)
        except KeyboardInterrupt:
            self._say("stopping the workers, then the servers; Ctrl-C ends them at once")
            if self._watching.run_uuid is not None and self._watching.newest.phase != "ended":
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
        if self._chaos.disturbances:
            self._chaos.begin()

    def _start_one(self, name: str, role: str) -> Child:
        if role == "server":
            return self._children.start(name, role, self._plan.server_command(name))
        mark = new_mark()
        return self._children.start(name, role, self._plan.worker_command(name, mark), mark)

    def _after(self, finish: "Finish") -> None:
        """The run is over: everybody ends by himself."""
        self._chaos.end()
        if not finish.failure:
            self._children.wait(END_WAIT_S)
        for child in self._children.newly_ended():
            if child.code and not child.disturbed:
                self._say(f"{child.name} {child.ending()} after the run; its log is {child.log}")

    def _end(self) -> None:
        self._stop.set()
        self._chaos.end()
        for child in self._children.end(ENDING):
            self._say(f"{child.name} did not end when asked to and was killed; its log is {child.log}")
        self._farewells.close()
        if self._evaluating is not None:
            self._evaluating.done.wait(EVALUATOR_WAIT_S)

    def _check_children(self) -> None:
        for child in self._children.newly_ended():
            if child.code and not child.disturbed and not (self._is_alone() and self._evaluator_knows_why()):
                self._mourn(child)
        if self._watching.run_uuid is not None:
            self._farewells.look(self._watching.run_uuid, self._watching.newest.members, self._children.dead_marks())
        self._check_alone()

    def _is_alone(self) -> bool:
        return not (self._children.living("server") and self._children.living("worker"))

    def _evaluator_knows_why(self) -> bool:
        """Whether the ledger says that the run is over: then its words are better than those of a process."""
        return self._evaluating is not None and self._evaluating.done.wait(EVALUATOR_WAIT_S)

    def _check_alone(self) -> None:
        """Processes that all ended well without an end of the run were stopped by somebody."""
        now_s = time.monotonic()
        if not self._is_alone() or self._chaos.is_undoing:
            self._alone_since_s = None
        elif self._alone_since_s is None:
            self._alone_since_s = now_s
        elif now_s - self._alone_since_s > ALONE_S:
            role = "worker" if self._children.living("server") else "server"
            raise RunError(f"every {role} of this command was stopped before the run ended; it goes no further here")

    def _mourn(self, child: Child) -> None:
        left = self._children.living(child.role)
        members = self._watching.newest
        log.info("%s %s", child.name, child.ending())
        if not left and not self._chaos.is_undoing:
            raise _error(child, f"no {child.role} of this command is left, so the run cannot go on")
        if child.role == "worker" and not members.version and members.workers < self._plan.settings.workers:
            raise _error(child, f"the run cannot start without its {self._plan.settings.workers} workers")
        others = ", ".join(one.name for one in left) or "nobody"
        self._say(
            f"{child.name} {child.ending()}; {others} {_goes_on(left)} without it "
            f"(this release does not start it again). The end of its log, {child.log}:\n{_indented(child.tail(5))}"
        )

    # -- training ----------------------------------------------------------------------------------------------------

    def _train(self) -> "tuple[Finish, RunState]":
        self._evaluating = Background(self._evaluate, "evaluator")
        self._wait_for(self._task)
        return self._wait_for(self._evaluating)

    def _evaluate(self) -> "tuple[Finish, RunState]":
        from driftline.consumers.server.serving import wait_for_run  # noqa: PLC0415 - see the top of this module
        from driftline.training.task.evaluating import evaluate_run  # noqa: PLC0415 - ditto

        run, name = self._plan.settings.run, self._plan.evaluator
        with exporting(self._plan.addresses().get(name), run=run, role="evaluator", member=name) as watch_metrics:
            wait_for_run(self._broker, run, stop=self._stop, patience_s=float("inf"))
            watch = self._watching.look
            return evaluate_run(
                self._broker, run, name, self._loaded_task, stop=self._stop, watch=watch, watch_metrics=watch_metrics
            )

    def _loaded_task(self) -> "Task":
        while not self._task.done.wait(LOOK_S):
            if self._stop.is_set():
                raise RunError("stopped while the task was loaded")
        return self._task.result()

    def _wait_for(self, work: Background[T]) -> T:
        reader: Reader | None = None
        try:
            while not work.done.wait(LOOK_S):
                self._check_children()
                if reader is None and self._watching.run_uuid is not None:
                    reader = self._open_events(self._watching.run_uuid)
                if reader is not None:
                    self._read_events(reader)
                self._show(self._progress())
        finally:
            if reader is not None:
                reader.close()
        self._show(self._progress())
        return work.result()

    def _open_events(self, run_uuid: bytes) -> Reader:
        self._live = Live(run_uuid)
        reader = self._broker.reader()
        reader.read(topic_name(self._plan.settings.run, Stream.EVENTS), 0, Start.END)
        return reader

    def _read_events(self, reader: Reader) -> None:
        until_s = time.monotonic() + LOOK_S
        while (record := reader.poll(0.0)) is not None and time.monotonic() < until_s:
            if isinstance(record, Record):
                self._live.read(record.value, record.timestamp_ms)

    def _progress(self) -> Progress:
        seen = self._watching.newest
        if seen.disk and not self._disk_is_said:
            self._disk_is_said = True
            self._say(seen.disk)
        if warning := self._disk.look(seen, time.monotonic()):
            self._say(warning)
        return replace(seen, waiting_share=self._live.waiting_share(self._live.newest_ms - RECENT_MS))


def _error(child: Child, consequence: str) -> DriftlineError:
    kind = _ERRORS.get(child.code or 1, RunError)
    return kind(
        f"{child.name} {child.ending()}: {consequence}. The end of its log, {child.log}:\n{_indented(child.tail())}"
    )


def _goes_on(left: list[Child]) -> str:
    return "goes on" if len(left) == 1 else "go on"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines()) or "  (empty)"
