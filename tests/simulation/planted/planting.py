"""How a bug is put into the state machines: which ones have it, and in which scenarios it can show."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from driftline.consumers.coordinator.coordinator import Coordinator
from driftline.consumers.coordinator.evidence import Evidence
from driftline.consumers.server.partition import OwnedPartition
from driftline.consumers.server.server import Server
from driftline.consumers.server.shard_server import ShardServer
from driftline.consumers.server.snapshotting import Snapshotting
from driftline.ledger.chain import Chain
from driftline.ledger.leases import Leases
from driftline.ledger.run_state import RunState
from driftline.schemas.codec import peek_type
from driftline.schemas.effects import Effect, Input, Received, Send
from driftline.schemas.records import AnyRecord, TermStart
from driftline.schemas.run.consistency import Consistency
from driftline.schemas.run.data import DataConfig
from driftline.schemas.run.local_work import LocalWork
from driftline.schemas.run.schedule import Schedule
from tests.simulation.run.actors import Cores
from tests.simulation.run.scenario import Fault, Scenario, in_lock_step, scenario


@dataclass(frozen=True)
class Planted:
    """A planted bug.

    Attributes:
        breaks: number of the invariant in ``docs/simulation.md``.
        cores: the state machines that have it.
        faults: kinds that bring it out, instead of what a seed says.
        crowd: three servers share one partition, an evaluator looks on, and the run is short.
        buffers: every model has some.
        scripts: workers set the learning rates.
        leased: the run ends when each of some samples was used twice.
        trims: there are snapshots of every other version, and what they make needless is deleted.
        stopped: a command asks for the run's end.
        seeds: so many seeds find it.
    """

    name: str
    breaks: str
    cores: Cores
    faults: tuple[Fault, ...] | None = None
    crowd: bool = False
    buffers: bool = False
    scripts: bool = False
    leased: bool = False
    trims: bool = False
    stopped: bool = False
    seeds: int = 40

    def plan(self, seed: int) -> Scenario:
        """Draw a scenario in which this bug has a fair chance to show."""
        plan = replace(in_lock_step(scenario(seed, faults=self.faults)), calm_until=0)
        if self.buffers:
            plan = replace(plan, buffers=True)
        if self.scripts:
            plan = replace(plan, config=replace(plan.config, schedule=Schedule(set_by="script")))
        if self.leased:
            data = DataConfig(samples=8 * plan.workers, batch_size=2, block=4, epochs=2)
            plan = replace(plan, config=replace(plan.config, steps=0, data=data, local=LocalWork()))
        if self.trims:
            bounds = Consistency(mode="ssp", staleness=2)
            config = replace(plan.config, consistency=bounds, snapshot_every=2, retain="checkpoint")
            plan = replace(plan, config=config, calm_until=3)
        if self.stopped:
            plan = replace(plan, stop_at=300)
        if self.faults is not None:
            plan = replace(plan, fault_share=0.05)
        if self.crowd:
            config = replace(plan.config, partitions=1, steps=2)
            plan = replace(plan, servers=3, evaluators=1, config=config)
        return plan

    def __str__(self) -> str:
        return self.name


def sends(effect: Effect, *kinds: type[AnyRecord]) -> bool:
    """Whether an effect sends a record of one of these types."""
    return isinstance(effect, Send) and peek_type(effect.value) in kinds


def starts_term(event: Input) -> bool:
    """Whether a new coordinator begins: the moment to repeat what the ledger does not hold."""
    return isinstance(event, Received) and peek_type(event.value) is TermStart


def server_with(
    *,
    coordinator: type[Coordinator] = Coordinator,
    shards: type[ShardServer] = ShardServer,
    partition: type[OwnedPartition] = OwnedPartition,
    snapshots: type[Snapshotting] = Snapshotting,
    evidence: type[Evidence] | None = None,
    chain: type[Chain] | None = None,
    leases: type[Leases] | None = None,
) -> Callable[..., Server]:
    """Return what makes servers that stand on faulty parts."""

    def make(name: str, incarnation: bytes, rng: random.Random, state: RunState | None = None) -> Server:
        begins = chain is not None or leases is not None  # the bug is in what the ledger is folded with
        server = Server(name, incarnation, rng, None if begins else state)
        server.shards = _owning(shards, partition)(name, incarnation, server.state)
        server.shards.snapshots = snapshots(name, incarnation, server.state)
        candidate = coordinator if evidence is None else _with_evidence(coordinator, evidence, server.state)
        server.coordinator = candidate(name, incarnation, server.state, rng)
        if chain is not None:
            server.state.chain = chain()
        if leases is not None:
            server.state.leases_of = leases
        return server

    return make


def _owning(shards: type[ShardServer], partition: type[OwnedPartition]) -> type[ShardServer]:
    """Let every partition that a server takes over be a faulty one."""
    if partition is OwnedPartition:
        return shards

    class Owning(shards):  # type: ignore[valid-type, misc]
        def go_on(self) -> Iterator[Effect]:
            for owned in self.owned.values():
                owned.__class__ = partition
            return super().go_on()  # type: ignore[no-any-return]

    return Owning


def _with_evidence(coordinator: type[Coordinator], evidence: type[Evidence], state: RunState) -> type[Coordinator]:
    """Let every candidate begin with faulty evidence."""

    class Believing(coordinator):  # type: ignore[valid-type, misc]
        def on_assigned(self) -> list[Effect]:
            effects: list[Effect] = super().on_assigned()
            self.evidence = evidence(state)
            return effects

    return Believing
