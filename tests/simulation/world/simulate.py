"""One seed from beginning to end."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from driftline.schemas.run.consistency import Consistency
from tests.simulation.promises.rebuild import require_rebuilds
from tests.simulation.promises.reference_ledger import Violation, require
from tests.simulation.promises.undisturbed import expected_digest
from tests.simulation.run.actors import Cores
from tests.simulation.run.scenario import Fault, Scenario, scenario
from tests.simulation.world.faults import Injector
from tests.simulation.world.quiet import heal, settle
from tests.simulation.world.reading_once import reading_once
from tests.simulation.world.scheduler import Scheduler
from tests.simulation.world.world import World

MakeWorld = Callable[[Scenario, Cores], World]

NOT_WHOLE = "not whole"
"""How the reason of a rejection begins when receipts did not come."""

SLOW = frozenset({Fault.SEND_LATE})
"""Faults that keep deltas or receipts out of the log for longer than the coordinator waits for them."""


LONGEST_CALM = 4000
"""Events after which faults begin whatever has been reached."""


class SimulationFailure(AssertionError):
    """A seed broke an invariant; says which, and shows the last events."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a seed did.

    Attributes:
        events: how many.
        faults: how many of each kind.
        kinds: events by kind.
        records: records that landed, by type.
        version: the last one.
        digest: of its state.
        removals: groups that were removed.
        rejections: contributions that were.
        terms: the last term.
        fingerprint: over every event, in order.
        same_bits: whether the digest was compared with that of an undisturbed run.
        restored: checkpoints whose state was found to be that of the whole ledger.
        entered: processes that began to read the ledger at a checkpoint.
    """

    seed: int
    events: int
    faults: Counter[Fault]
    kinds: Counter[str]
    records: Counter[str]
    version: int
    digest: bytes
    removals: int
    rejections: int
    terms: int
    fingerprint: int
    same_bits: bool
    restored: int
    entered: int


def simulate(plan: Scenario | int, cores: Cores | None = None, make: MakeWorld = World) -> Report:
    """Run a scenario, or that of a seed, in the world that ``make`` makes.

    Raises:
        SimulationFailure: an invariant does not hold.
    """
    world = make(scenario(plan) if isinstance(plan, int) else plan, cores or Cores())
    try:
        with reading_once():
            play(world)
            return _report(world)
    except Violation as violation:
        raise SimulationFailure(world.explain(violation)) from violation


def play(world: World) -> None:
    """Let everything happen, from the start to the end of the run.

    Raises:
        Violation: an invariant does not hold.
    """
    plan, scheduler, injector = world.scenario, Scheduler(world), Injector(world)
    for index in range(plan.servers):
        world.start("server", f"s{index}")
    for name in plan.names:
        world.start("worker", name)
    for index in range(plan.evaluators):
        world.start("evaluator", f"e{index}")
    while world.promises.ledger.now.version < plan.calm_until and world.events < LONGEST_CALM:
        scheduler.step()
    until = world.events + plan.disturbed_events
    while world.events < until and world.promises.ledger.end is None:
        world.restart_due()
        if plan.stop_at is not None and world.events >= plan.stop_at:
            world.ask_to_stop()
        injector.maybe()
        scheduler.step()
    heal(world)
    settle(world)


def _report(world: World) -> Report:
    ledger, model, plan = world.promises.ledger, world.promises.model, world.scenario
    version, stopped = ledger.now.version, world.promises.is_stopped
    at_goal = world.promises.is_goal(version)
    require(stopped or at_goal, f"the run ends at version {version}, not {plan.config.steps}, with {ledger.samples}")
    whole = len(world.promises.published.get(version, ())) == world.problem.layout.shard_count
    gave_up = world.promises.ended_unpublished
    require(whole or gave_up, f"no process that comes now can load version {version}: its parameters are not whole")
    _require_just_rejections(world)
    require_rebuilds(world.log, world.promises)
    digest = model.states[version].digests.model
    all_there = not ledger.gone and not ledger.rejections and not world.skips_asked
    in_lock_step = plan.config.consistency == Consistency()
    same_bits = not stopped and in_lock_step and all_there and ledger.joined == list(plan.names)
    if same_bits:
        right = expected_digest(world.problem, plan.names, version)
        require(digest == right, "the bits are not those of an undisturbed run")
    return Report(
        seed=plan.seed,
        events=world.events,
        faults=world.faults,
        kinds=world.kinds,
        records=world.promises.records,
        version=version,
        digest=digest,
        removals=len(ledger.gone),
        rejections=len(ledger.rejections),
        terms=ledger.now.term,
        fingerprint=world.fingerprint,
        same_bits=same_bits,
        restored=world.promises.states.compared,
        entered=world.entered,
    )


def _require_just_rejections(world: World) -> None:
    """A contribution that is whole in the log is given up only where something kept receipts or readers waiting."""
    unjust = [
        rejection
        for rejection in world.promises.ledger.rejections
        if rejection.reason.startswith(NOT_WHOLE) and world.promises.model.is_whole(rejection.group, rejection.clock)
    ]
    slow = SLOW & set(world.faults)
    require(not unjust or bool(slow), f"rejected although every delta is there: {unjust}")
