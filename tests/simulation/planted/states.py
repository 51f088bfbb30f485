"""Bugs put into the state that checkpoints carry, of every process alike, so that none differs from the others.

Only a comparison of what is folded from a checkpoint with what is folded from the beginning finds them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from driftline.consumers.server.server import Server
from driftline.ledger.dump import dump
from driftline.ledger.run_state import RunState
from driftline.producers.proposal import Offer
from driftline.producers.session import WorkerSession
from driftline.schemas.records import FrozenState
from driftline.training.task.evaluator import EvaluatorSession
from tests.simulation.planted.leases import GOING
from tests.simulation.planted.planting import Planted
from tests.simulation.run.actors import Cores

Dump = Callable[[RunState], FrozenState]


def forgets_leases(state: RunState) -> FrozenState:
    """Keep how many samples are used up, and forget who holds which."""
    dumped = dump(state)
    return replace(dumped, leases=tuple(row for row in dumped.leases if row.kind >= 2))


def forgets_a_clock(state: RunState) -> FrozenState:
    """Take the clock before for the last one that is settled."""
    dumped = dump(state)
    return replace(
        dumped, groups=tuple(replace(one, settled_clock=max(0, one.settled_clock - 1)) for one in dumped.groups)
    )


def forgets_who_is_gone(state: RunState) -> FrozenState:
    """Forget incarnations that were removed: a late word of one lets it join again."""
    return replace(dump(state), former=())


def forgets_publish_points(state: RunState) -> FrozenState:
    """Take the version for the newest one that was published."""
    return replace(dump(state), last_publish=state.version)


def everybody(wrong: Dump) -> Cores:
    """Return processes that all dump their state in the same wrong way."""

    def server(name: str, incarnation: bytes, rng: random.Random, state: RunState | None) -> Server:
        core = Server(name, incarnation, rng, state)
        core.state.dump = wrong
        return core

    def worker(name: str, incarnation: bytes, offer: Offer, run: bytes, *, state: RunState | None) -> WorkerSession:
        core = WorkerSession(name, incarnation, offer, run, state=state)
        core.state.dump = wrong
        return core

    def evaluator(name: str, incarnation: bytes, state: RunState | None) -> EvaluatorSession:
        core = EvaluatorSession(name, incarnation, state)
        core.state.dump = wrong
        return core

    return Cores(server=server, worker=worker, evaluator=evaluator)


STATES = (
    Planted("forgets leases in checkpoints", "10", everybody(forgets_leases), leased=True, trims=True),
    Planted("forgets a clock in checkpoints", "10", everybody(forgets_a_clock), trims=True),
    Planted("forgets who is gone in checkpoints", "10", everybody(forgets_who_is_gone), GOING, trims=True),
    Planted("forgets publish points in checkpoints", "10", everybody(forgets_publish_points), trims=True),
)
"""Each with the number of the invariant that it breaks."""
