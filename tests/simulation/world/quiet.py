"""After the faults: all processes are awake, everything lands, and the run must reach its end within a bounded time."""

import random

from tests.simulation.promises.reference_ledger import Violation
from tests.simulation.run.actors import Actor, servers, workers
from tests.simulation.run.log import Place
from tests.simulation.run.scenario import seeded
from tests.simulation.world.scheduler import awake, hand_out, readable
from tests.simulation.world.world import World

ROUND_S = 0.05
SERVERS_RENEWED = 0.4
WORKERS_RENEWED = 0.1
"""Probability that a server or worker dies and comes back when the faults are over and there is a checkpoint."""

LONGEST_S = 40.0
"""Simulated seconds within which a run without faults ends: several times what ticks and back-offs add up to."""


def heal(world: World) -> None:
    """End every fault, and see to it that one server and one worker live."""
    world.outage_until = 0
    world.outbox.prompt = 1.0
    if world.scenario.stop_at is not None:
        world.ask_to_stop()
    for actor in world.actors:
        actor.asleep_until = actor.deaf_until = 0
        actor.errors.clear()
        actor.armed.clear()
        for cursor in actor.cursors.values():
            cursor.stalled_until = 0
    if not any(servers(world.actors)):
        world.start("server", "s0")
    restart_workers(world)


def restart_workers(world: World) -> None:
    """Start workers again: all of them before training begins, as it waits for all, and one afterwards."""
    missing = [name for name in world.scenario.names if name not in {actor.name for actor, _ in workers(world.actors)}]
    begun = bool(world.promises.ledger.joined)
    if begun and any(workers(world.actors)):
        return
    for name in missing[:1] if begun else missing:
        world.start("worker", name)


def renew(world: World, rng: random.Random) -> None:
    """Let some die although the faults are over, now that those who come for them can begin at a checkpoint."""
    world.renewed = True
    if not world.scenario.renews:
        return
    for share, actors in ((SERVERS_RENEWED, servers(world.actors)), (WORKERS_RENEWED, workers(world.actors))):
        for actor in [actor for actor, _ in actors if rng.random() < share]:
            world.crash(actor)
            world.start(actor.kind, actor.name)


def settle(world: World) -> None:
    """Go on without faults until every process has read the run's end.

    Raises:
        Violation: it does not end in time.
    """
    until_s = world.now_s + LONGEST_S
    rng = seeded(("newcomers", world.scenario.seed))
    while (working := awake(world)) or world.promises.ledger.end is None:
        if not world.renewed and world.promises.ledger.checkpoint is not None and world.promises.ledger.end is None:
            renew(world, rng)
        if world.now_s >= until_s:
            waiting = ", ".join(sorted(str(actor) for actor in working))
            raise Violation(f"no end after {LONGEST_S} s without faults; still there: {waiting}")
        _round(world)


def _round(world: World) -> None:
    while hand_out(world):
        pass
    if world.promises.ledger.end is None:
        restart_workers(world)
    for lane in world.outbox.lanes():
        world.land(lane)
    actors = awake(world)
    world.rng.shuffle(actors)
    for actor in actors:
        _turn(world, actor, ROUND_S / len(actors))


def _turn(world: World, actor: Actor, passed_s: float) -> None:
    """Give a process everything that is there for it at this moment."""
    while actor.inbox and not actor.done:
        world.open_inbox(actor)
    places = readable(world, actor)
    world.rng.shuffle(places)
    for place in places:
        ending = world.log.ends[place]
        while not actor.done and place in actor.cursors and _has_more(world, actor, place, ending):
            world.deliver(actor, place)
    if not actor.done:
        world.tick(actor, passed_s)
    if world.can_compute(actor):
        world.compute(actor)


def _has_more(world: World, actor: Actor, place: Place, ending: int) -> bool:
    cursor = actor.cursors[place]
    if cursor.paused:
        return False
    return cursor.offset < ending or (cursor.offset == world.log.ends[place] and not cursor.end_told)
