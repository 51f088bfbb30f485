"""A whole run in one process: servers and workers as shells over one broker, gradients from a function.

For tests that want every layer but torch and processes.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from driftline.broker.port import Broker
from driftline.broker.topics import run_topics
from driftline.consumers.server.server import Server
from driftline.consumers.server.serving import SERVER_GROUPS
from driftline.errors import WaitTimeout
from driftline.ledger.entering.checkpoint import enter_ledger
from driftline.ledger.follower import Model
from driftline.ledger.run_state import RunState
from driftline.producers.deltas import Gradient
from driftline.producers.proposal import Offer
from driftline.producers.session import WorkerSession
from driftline.runtime.shell import Shell
from driftline.schemas.effects import Finish
from driftline.schemas.records.sample_range import Samples

Compute = Callable[[str, Model, int], Gradient]
"""(worker, model, pace) → gradient."""


@dataclass(frozen=True, slots=True)
class Leased:
    """Gradients of samples that the ledger leases: (worker, model, clock, samples that it may read) → gradient."""

    compute: Callable[[str, Model, int, Samples], Gradient]


STEP_S = 0.001


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: what the first worker saw last, and what each member finished with."""

    state: RunState
    model: Model | None
    finishes: dict[str, Finish]
    undecodable: int
    """Records that servers could not read, all of them together."""


def run_in_process(
    broker: Broker,
    offer: Offer,
    workers: Sequence[str],
    compute: Compute | Leased,
    *,
    servers: int = 1,
    pauses: Mapping[str, float] | None = None,
    relieve_at: int = 0,
    timeout_s: float = 60.0,
) -> Outcome:
    """Run ``offer`` to its end.

    Args:
        broker: where; the run's topics are created.
        offer: what.
        workers: their names.
        compute: their gradients.
        servers: how many.
        pauses: worker → seconds that each of its clocks takes.
        relieve_at: at this version all servers go, and as many new ones come; 0 is never.
        timeout_s: how long it may take in all.

    Raises:
        WaitTimeout: it did not end within ``timeout_s``; says who is still at work and why.
    """
    rng = random.Random(0)  # noqa: S311 - reproducible on purpose
    admin = broker.admin()
    admin.create(run_topics(offer.config.name, offer.config.partitions))
    admin.close()
    cast = _Cast(broker, offer, workers, compute, pauses or {}, rng)
    cast.enter_servers(servers)
    try:
        deadline_s = time.monotonic() + timeout_s
        if relieve_at:
            cast.play(deadline_s, until_version=relieve_at)
            cast.exit_servers()
            cast.enter_servers(servers)
        cast.play(deadline_s)
        return cast.outcome()
    finally:
        cast.close()


class _Cast:
    """All members of one run, stepped in turn."""

    def __init__(
        self,
        broker: Broker,
        offer: Offer,
        workers: Sequence[str],
        compute: Compute | Leased,
        pauses: Mapping[str, float],
        rng: random.Random,
    ) -> None:
        self._compute = compute
        self._pauses = pauses
        self._busy_until_s: dict[str, float] = {}
        self._broker, self._run, self._rng = broker, offer.config.name, rng
        self._sessions = {name: WorkerSession(name, rng.randbytes(16), offer, rng.randbytes(16)) for name in workers}
        self._servers: list[Server] = []
        self._shells = {name: Shell(broker, self._run, session, name) for name, session in self._sessions.items()}

    def enter_servers(self, count: int) -> None:
        """Let new servers begin."""
        for _ in range(count):
            name = f"server-{len(self._servers) + 1}"
            state = enter_ledger(self._broker, self._run).state() if self._servers else None
            self._servers.append(Server(name, self._rng.randbytes(16), self._rng, state))
            self._shells[name] = Shell(self._broker, self._run, self._servers[-1], name, SERVER_GROUPS)

    def exit_servers(self) -> None:
        """Let all servers go, with all that they know."""
        for name in self._shells.keys() - self._sessions.keys():
            self._shells.pop(name).close()

    def play(self, deadline_s: float, until_version: int | None = None) -> None:
        """Step everybody until everybody has finished, or the first worker has read a version."""
        first = next(iter(self._sessions.values()))
        while any(shell.finished is None for shell in self._shells.values()):
            if until_version is not None and first.state.version >= until_version:
                return
            for name, shell in self._shells.items():
                shell.step(STEP_S)
                self._work(name, shell)
            if time.monotonic() > deadline_s:
                raise WaitTimeout(f"the run did not end: {self._waiting()}")

    def _work(self, name: str, shell: Shell) -> None:
        session = self._sessions.get(name)
        model = None if session is None else session.may_start()
        if session is None or model is None:
            return
        pause_s = self._pauses.get(name, 0.0)
        if pause_s and time.monotonic() < self._busy_until_s.setdefault(name, time.monotonic() + pause_s):
            return
        self._busy_until_s.pop(name, None)
        if isinstance(self._compute, Leased) and not session.samples:
            shell.perform(session.skip(model, 0, "no samples are left"))
            return
        if isinstance(self._compute, Leased):
            gradient = self._compute.compute(name, model, session.clock + 1, session.samples)
        else:
            gradient = self._compute(name, model, session.pace)
        shell.perform(session.contribute(model, gradient))

    def _waiting(self) -> str:
        return "; ".join(f"{name} waits for {one.waiting_for()}" for name, one in self._sessions.items())

    def outcome(self) -> Outcome:
        """Collect what there is to see."""
        first = next(iter(self._sessions.values()))
        finishes = {name: shell.finished for name, shell in self._shells.items() if shell.finished is not None}
        undecodable = sum(server.counters["undecodable"] for server in self._servers)
        return Outcome(first.state, first.reader.follower.newest, finishes, undecodable)

    def close(self) -> None:
        """Release every client."""
        for shell in self._shells.values():
            shell.close()
