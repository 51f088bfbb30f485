"""Simulated runs in which a process dies at a chosen point, and how often that has happened."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from driftline.schemas.effects import Effect, Input
from tests.simulation.deaths.fault_points import Approach, FaultPoint, is_server_point, name_of_input
from tests.simulation.run.actors import Actor, Cores
from tests.simulation.run.scenario import Fault, Scenario, in_lock_step, scenario, seeded
from tests.simulation.world.simulate import Report, simulate
from tests.simulation.world.world import World

DEATHS = 3
"""At each point, at least."""

MOST_SEEDS = 60
FIRST_SEED = 1000

TAKEOVERS = (Fault.CRASH_SERVER, Fault.MOVE, Fault.ZOMBIE)
"""What happens besides, so that the points of a takeover are reached in the middle of runs."""

FREE = frozenset({FaultPoint.PUBLISH_SENT})
"""Points that are not reached in lock-step, where every version is a publish point."""


class DyingWorld(World):
    """A world in which a process dies at one point, the ``nth`` time that one reaches it; it comes back at once.

    Attributes:
        deaths: how often a process has died there.
    """

    def __init__(self, scenario: Scenario, cores: Cores, point: FaultPoint, nth: int) -> None:
        self.deaths = 0
        self._kind, self._approach, self._input = point.value.kind, Approach(point, nth), ""
        super().__init__(scenario, cores)

    def give(self, actor: Actor, event: Input, what: str) -> None:
        """Hand an input to a process, which may die of it."""
        self._input = name_of_input(event)
        super().give(actor, event, what)

    def _carry(self, actor: Actor, effects: Iterable[Effect]) -> None:
        event, self._input = self._input, ""
        if actor.kind == self._kind:
            effects = self._approach.until_death(event, effects, partial(self._die, actor))
        super()._carry(actor, effects)

    def _die(self, actor: Actor) -> None:
        self.deaths += 1
        self.crash(actor)
        self.start(actor.kind, actor.name)


@dataclass(frozen=True, slots=True)
class Reached:
    """How often processes died at a point.

    Attributes:
        deaths: in all seeds.
        seeds: that were run.
        compared: those of them with a death and with the bits of an undisturbed run compared.
    """

    point: FaultPoint
    deaths: int
    seeds: int
    compared: int

    def is_enough(self, deaths: int = DEATHS) -> bool:
        """Whether that shows something."""
        return self.deaths >= deaths and (self.compared > 0 or not has_bits(self.point))

    def __str__(self) -> str:
        return f"{self.point.name}: {self.deaths} deaths in {self.seeds} seeds, bits compared in {self.compared}"


def has_bits(point: FaultPoint) -> bool:
    """Whether the bits behind a death at a point must be those of the undisturbed run."""
    return is_server_point(point) and point not in FREE


def reach(point: FaultPoint, deaths: int = DEATHS) -> Reached:
    """Run seeds until processes have died at least ``deaths`` times at a point.

    Raises:
        SimulationFailure: a promise was broken.
    """
    found = Reached(point, 0, 0, 0)
    while not found.is_enough(deaths) and found.seeds < MOST_SEEDS:
        report, died = play(point, FIRST_SEED + found.seeds)
        compared = found.compared + bool(died and report.same_bits)
        found = Reached(point, found.deaths + died, found.seeds + 1, compared)
    return found


def play(point: FaultPoint, seed: int) -> tuple[Report, int]:
    """Run one seed; return its report, and how often a process died.

    Raises:
        SimulationFailure: a promise was broken.
    """
    worlds: list[DyingWorld] = []

    def make(plan: Scenario, cores: Cores) -> DyingWorld:
        worlds.append(DyingWorld(plan, cores, point, seeded((point.name, seed)).choice((1, 1, 2, 3, 5, 8))))
        return worlds[-1]

    return simulate(plan_of(seed, point), make=make), worlds[0].deaths


def plan_of(seed: int, point: FaultPoint) -> Scenario:
    """Return a scenario of several servers and many snapshots, in which a point can be reached."""
    rng, plan = seeded(("points", seed)), scenario(seed, faults=TAKEOVERS)
    every, retain = rng.choice((1, 2, 3)), rng.choice(("all", "checkpoint", "checkpoint"))
    plan = plan if point in FREE else in_lock_step(plan)
    return replace(plan, servers=rng.choice((2, 3)), config=replace(plan.config, snapshot_every=every, retain=retain))
