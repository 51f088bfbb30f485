"""Faults happen: each kind is a function of the world that says whether it found something to disturb."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from driftline.broker.topics import Stream
from tests.simulation.promises.rebuild import require_rebuilds
from tests.simulation.run.actors import Actor, servers, workers
from tests.simulation.run.scenario import MIN_KINDS, Fault
from tests.simulation.world import forgery
from tests.simulation.world.scheduler import awake, own
from tests.simulation.world.world import World

SHORT, LONG = 20, 300
"""Events for which something lasts."""

LONGEST_JUMP_S = 100.0
MOST_WORKERS = 6
EAGER = 0.05
"""Probability of a fault while a seed has not had its kinds."""


class Injector:
    """Decides when a fault happens, and which."""

    def __init__(self, world: World) -> None:
        self._world = world

    def maybe(self) -> None:
        """Disturb the world, or not."""
        world, plan = self._world, self._world.scenario
        if not plan.faults:
            return
        few = len(world.faults) < min(MIN_KINDS, len(plan.faults))
        eager = 3 * EAGER if plan.calm_until else EAGER  # a calm beginning leaves less time
        if world.rng.random() >= (max(eager, plan.fault_share) if few else plan.fault_share):
            return
        kinds = [kind for kind in plan.faults if not (few and kind in world.faults)]
        world.rng.shuffle(kinds)
        while kinds and not self.inject(kinds.pop()):
            pass

    def inject(self, kind: Fault) -> bool:
        """Let one fault happen, if there is something to disturb."""
        world = self._world
        found = FAULTS[kind](world)
        if found:
            world.faults[kind] += 1
            world.note("fault", "", kind.name)
        return found


def _until(world: World) -> int:
    return world.events + world.rng.randint(SHORT, LONG)


def _stall(world: World) -> bool:
    cursors = [cursor for actor in awake(world) for cursor in actor.cursors.values()]
    if cursors:
        world.rng.choice(cursors).stalled_until = _until(world)
    return bool(cursors)


def _outage(world: World) -> bool:
    world.outage_until = world.events + world.rng.randint(SHORT, LONG) // 2
    world.now_s += world.rng.choice((0.0, world.rng.uniform(0.0, LONGEST_JUMP_S)))
    return True


def _pause(world: World) -> bool:
    actors = awake(world)
    if not actors:
        return False
    actor = world.rng.choice(actors)
    actor.asleep_until = _until(world)
    others = [other for other, _ in servers(world.actors) if other is not actor]
    if others and world.rng.random() < 0.5:
        actor.deaf_until = actor.asleep_until + world.rng.randint(0, LONG)
        for place in [place for place, owner in world.owners.items() if owner is actor]:
            own(world, place, world.rng.choice(others))
    return True


def _clock_jump(world: World) -> bool:
    actors = awake(world)
    if actors:
        world.rng.choice(actors).clock_s += world.rng.uniform(0.0, LONGEST_JUMP_S)
    return bool(actors)


def _crash_server(world: World) -> bool:
    able = [actor for actor, _ in servers(world.actors)]
    if not able:
        return False
    actor = world.rng.choice(able)
    world.crash(actor)
    world.restarts.append((_until(world), "server", actor.name))
    return True


def _crash_worker(world: World) -> bool:
    able = [actor for actor, _ in workers(world.actors)]
    if not able:
        return False
    actor = world.rng.choice(able)
    world.crash(actor)
    if len(able) == 1 or world.rng.random() < 0.7:
        world.restarts.append((_until(world), "worker", actor.name))
    return True


def _leave(world: World) -> bool:
    able = [(actor, session) for actor, session in workers(world.actors) if session.group is not None]
    if len(able) < 2:
        return False
    actor, session = world.rng.choice(able)
    world.leave(actor, session)
    return True


def _join(world: World) -> bool:
    names = {actor.name for actor in world.actors if actor.kind == "worker"}
    if len(names) >= MOST_WORKERS:
        return False
    world.start("worker", f"w{len(names)}")
    return True


def _move(world: World) -> bool:
    """Give a partition to another live server; its owner hears of it when it next listens."""
    owned = [(place, owner) for place, owner in world.owners.items() if owner is not None and owner.alive]
    able = [actor for actor, _ in servers(world.actors)]
    if not owned or not able:
        return False
    place, _ = world.rng.choice(owned)
    own(world, place, world.rng.choice(able))
    return True


def _zombie(world: World) -> bool:
    """The same, but the owner does not listen for a while: two processes believe that they own it."""
    pairs = [
        (place, owner, other)
        for place, owner in world.owners.items()
        for other, _ in servers(world.actors)
        if owner is not None and owner.alive and owner is not other
    ]
    if not pairs:
        return False
    place, owner, other = world.rng.choice(pairs)
    owner.deaf_until = _until(world)
    own(world, place, other)
    return True


def _fail_send(outcome: Fault) -> Callable[[World], bool]:
    def arm(world: World) -> bool:
        actors: list[Actor] = awake(world)
        if actors:
            world.rng.choice(actors).errors.append(outcome)
        return bool(actors)

    return arm


def _arm_worker(kind: Fault) -> Callable[[World], bool]:
    def arm(world: World) -> bool:
        able = [actor for actor, _ in workers(world.actors)]
        if able:
            world.rng.choice(able).armed.append(kind)
        return bool(able)

    return arm


def _compact(world: World) -> bool:
    world.log.compact(Stream.SNAPSHOTS)
    require_rebuilds(world.log, world.promises)
    return True


FAULTS: Mapping[Fault, Callable[[World], bool]] = MappingProxyType(
    {
        Fault.DUPLICATE: forgery.duplicate,
        Fault.STALL: _stall,
        Fault.OUTAGE: _outage,
        Fault.PAUSE: _pause,
        Fault.CLOCK_JUMP: _clock_jump,
        Fault.CRASH_SERVER: _crash_server,
        Fault.CRASH_WORKER: _crash_worker,
        Fault.LEAVE: _leave,
        Fault.JOIN: _join,
        Fault.MOVE: _move,
        Fault.ZOMBIE: _zombie,
        Fault.SEND_LOST: _fail_send(Fault.SEND_LOST),
        Fault.SEND_LANDED: _fail_send(Fault.SEND_LANDED),
        Fault.SEND_LATE: _fail_send(Fault.SEND_LATE),
        Fault.RUBBISH: forgery.rubbish,
        Fault.FOREIGN_RUN: forgery.foreign,
        Fault.VOID_RECORD: forgery.void,
        Fault.LOST_CLAIM: forgery.claim,
        Fault.NAN_DELTA: _arm_worker(Fault.NAN_DELTA),
        Fault.CONFLICTING_DELTA: forgery.conflicting,
        Fault.SKIP: _arm_worker(Fault.SKIP),
        Fault.COMPACT: _compact,
    }
)
