"""A whole run in one process: servers and workers take turns on one broker, without torch unless a task needs it."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from driftline.broker.port import Broker
from driftline.broker.topics import run_topics
from driftline.config.settings import load_run_settings
from driftline.consumers.server.server import Server
from driftline.consumers.server.serving import SERVER_GROUPS
from driftline.errors import WaitTimeout
from driftline.ledger.entering.checkpoint import enter_ledger
from driftline.ledger.follower import Model
from driftline.ledger.run_state import RunState
from driftline.producers.deltas import Gradient, NoGradient
from driftline.producers.proposal import Offer
from driftline.producers.session import WorkerSession
from driftline.runtime.shell import Shell
from driftline.schemas.effects import Finish
from driftline.schemas.records.sample_range import Samples
from driftline.testing.memory import MemoryBroker

if TYPE_CHECKING:
    from driftline.training.task import Task

GradientFunction = Callable[[str, Model, int], Gradient]
"""(worker, model, its count of contributions so far) → gradient."""

STEP_S = 0.001


@dataclass(frozen=True, slots=True)
class LeasedGradients:
    """Gradients of samples that the ledger leases: (worker, model, clock, samples that it may read) → gradient."""

    compute: Callable[[str, Model, int, Samples], Gradient | NoGradient]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended.

    Attributes:
        state: fold of the ledger, as the first worker read it.
        model: the newest version that the first worker read; ``model.flat`` is float32[elements].
        finishes: member → why it finished.
        undecodable: records that servers could not read, over all servers.
        metrics: of the last version, as the task measures them; empty without a task.
    """

    state: RunState
    model: Model | None
    finishes: dict[str, Finish]
    undecodable: int
    metrics: Mapping[str, float]


def train_in_process(
    task: "Task",
    *,
    broker: Broker | None = None,
    run: str = "test",
    workers: int = 2,
    servers: int = 1,
    timeout_s: float = 60.0,
    **settings: Any,
) -> Outcome:
    """Train a task to its end in this process, and measure the last version.

    Args:
        task: model, data, loss and metrics.
        broker: keeps the run's topics, so that a test can read them afterwards; by default a new `MemoryBroker`.
        run: name of the run.
        workers: how many.
        servers: how many.
        timeout_s: seconds that the whole run may take.
        settings: of the run, by the names of the options of ``driftline train`` (``steps``, ``mode``, ``seed`` …).

    Raises:
        ConfigError: lists everything about the task and the settings that cannot be trained.
        WaitTimeout: the run did not end within ``timeout_s``; says what each worker waits for.
    """
    from driftline.training.task.computing import Computing  # noqa: PLC0415 - torch, which other runs spare
    from driftline.training.task.evaluation import evaluate  # noqa: PLC0415 - as above
    from driftline.training.task.parts import build_model  # noqa: PLC0415 - as above

    chosen = load_run_settings(run, {"workers": workers, **settings}, environment={})
    computing = Computing(task, chosen)

    def compute(worker: str, model: Model, clock: int, leased: Samples) -> Gradient | NoGradient:
        return computing.gradient(model, worker=worker, start=0, clock=clock, leased=leased)

    names = [f"worker-{number + 1}" for number in range(workers)]
    outcome = run_in_process(
        broker or MemoryBroker(), computing.offer, names, LeasedGradients(compute), servers=servers, timeout_s=timeout_s
    )
    if outcome.model is None:
        return outcome
    measured = evaluate(task, build_model(task, chosen.seed), computing.offer.layout, outcome.model.flat)
    return replace(outcome, metrics=measured)


def run_in_process(
    broker: Broker,
    offer: Offer,
    workers: Sequence[str],
    compute: GradientFunction | LeasedGradients,
    *,
    servers: int = 1,
    pauses: Mapping[str, float] | None = None,
    restart_servers_at: int = 0,
    timeout_s: float = 60.0,
) -> Outcome:
    """Run an offer to its end in this process, with gradients of a function of yours.

    Args:
        broker: the run's topics are created there.
        offer: settings, layout and version 0.
        workers: their names.
        compute: the gradients of all workers.
        servers: how many.
        pauses: worker → seconds that each of its clocks takes.
        restart_servers_at: at this version new servers replace all servers; 0 is never.
        timeout_s: seconds that the whole run may take.

    Raises:
        WaitTimeout: the run did not end within ``timeout_s``; says what each worker waits for.
    """
    admin = broker.admin()
    admin.create(run_topics(offer.config.name, offer.config.partitions))
    admin.close()
    members = _Members(broker, offer, workers, compute, pauses or {})
    members.start_servers(servers)
    try:
        deadline_s = time.monotonic() + timeout_s
        if restart_servers_at:
            members.step_until(deadline_s, version=restart_servers_at)
            members.stop_servers()
            members.start_servers(servers)
        members.step_until(deadline_s)
        return members.outcome()
    finally:
        members.close()


class _Members:
    """All members of one run. They take turns."""

    def __init__(
        self,
        broker: Broker,
        offer: Offer,
        workers: Sequence[str],
        compute: GradientFunction | LeasedGradients,
        pauses: Mapping[str, float],
    ) -> None:
        self._compute = compute
        self._pauses = pauses
        self._busy_until_s: dict[str, float] = {}
        self._broker, self._run = broker, offer.config.name
        self._rng = rng = random.Random(0)  # noqa: S311 - reproducible on purpose
        self._sessions = {name: WorkerSession(name, rng.randbytes(16), offer, rng.randbytes(16)) for name in workers}
        self._servers: list[Server] = []
        self._shells = {name: Shell(broker, self._run, session, name) for name, session in self._sessions.items()}

    def start_servers(self, count: int) -> None:
        for _ in range(count):
            name = f"server-{len(self._servers) + 1}"
            state = enter_ledger(self._broker, self._run).state() if self._servers else None
            self._servers.append(Server(name, self._rng.randbytes(16), self._rng, state))
            self._shells[name] = Shell(self._broker, self._run, self._servers[-1], name, SERVER_GROUPS)

    def stop_servers(self) -> None:
        """Stop all servers; what they knew is lost."""
        for name in self._shells.keys() - self._sessions.keys():
            self._shells.pop(name).close()

    def step_until(self, deadline_s: float, version: int | None = None) -> None:
        """Give every member its turn until all have finished, or until the first worker has read a version."""
        first = next(iter(self._sessions.values()))
        while any(shell.finished is None for shell in self._shells.values()):
            if version is not None and first.state.version >= version:
                return
            for name, shell in self._shells.items():
                shell.step(STEP_S)
                if name in self._sessions:
                    self._work(name, self._sessions[name], shell)
            if time.monotonic() > deadline_s:
                raise WaitTimeout(f"the run did not end: {self._waiting()}")

    def _work(self, name: str, session: WorkerSession, shell: Shell) -> None:
        model = session.may_start()
        if model is None or self._is_busy(name):
            return
        found = self._gradient(name, session, model)
        if isinstance(found, NoGradient):
            shell.perform(session.skip(model, found.cursor, found.reason, found.samples))
        else:
            shell.perform(session.contribute(model, found))

    def _is_busy(self, name: str) -> bool:
        pause_s = self._pauses.get(name, 0.0)
        if pause_s and time.monotonic() < self._busy_until_s.setdefault(name, time.monotonic() + pause_s):
            return True
        self._busy_until_s.pop(name, None)
        return False

    def _gradient(self, name: str, session: WorkerSession, model: Model) -> Gradient | NoGradient:
        if not isinstance(self._compute, LeasedGradients):
            return self._compute(name, model, session.pace)
        if not session.samples:
            return NoGradient("no samples are left")
        return self._compute.compute(name, model, session.clock + 1, session.samples)

    def _waiting(self) -> str:
        return "; ".join(f"{name} waits for {one.waiting_for()}" for name, one in self._sessions.items())

    def outcome(self) -> Outcome:
        first = next(iter(self._sessions.values()))
        return Outcome(
            state=first.state,
            model=first.reader.follower.newest,
            finishes={name: shell.finished for name, shell in self._shells.items() if shell.finished is not None},
            undecodable=sum(server.counters["undecodable"] for server in self._servers),
            metrics={},
        )

    def close(self) -> None:
        for shell in self._shells.values():
            shell.close()
