"""Which event comes next: anything that may happen, in any order, as one seeded source of numbers says."""

from collections.abc import Callable
from itertools import accumulate

from driftline.schemas.effects import PartitionsAssigned, PartitionsRevoked, SendFailed, Sent
from tests.simulation.run.actors import Actor, servers
from tests.simulation.run.log import Place
from tests.simulation.world.world import World

STEP_S = 0.08
"""Longest time between two timers; some processes' timers are late by many of them."""


def readable(world: World, actor: Actor) -> list[Place]:
    """Return the partitions of which an actor may be handed something."""
    if world.outage_until > world.events:
        return []
    ends, now = world.log.ends, world.events
    return [
        place
        for place, cursor in actor.cursors.items()
        if (not cursor.end_told or cursor.offset < ends[place]) and not cursor.paused and cursor.stalled_until <= now
    ]


def awake(world: World) -> list[Actor]:
    """Return the processes that can do something now."""
    now = world.events
    return [one for one in world.actors if one.alive and not one.done and one.asleep_until <= now]


def hand_out(world: World) -> bool:
    """The consumer groups give partitions without a live owner to a live server; return whether any was given."""
    able = [actor for actor, _ in servers(world.actors)]
    orphans = [place for place, owner in world.owners.items() if owner is None or not owner.alive or owner.done]
    if not able or not orphans:
        return False
    own(world, world.rng.choice(orphans), world.rng.choice(able))
    return True


def own(world: World, place: Place, actor: Actor) -> None:
    """Give a partition to a server; the owner before learns of it when it next listens."""
    before = world.owners[place]
    if before is not None:
        before.inbox.append(PartitionsRevoked(place[0], (place[1],)))
    actor.inbox.append(PartitionsAssigned(place[0], (place[1],)))
    world.owners[place] = actor
    world.note("own", actor.label, place)


def listens(world: World, actor: Actor) -> bool:
    """Whether an actor may be handed the oldest thing in its inbox; a zombie has not yet heard what it lost."""
    if not actor.inbox:
        return False
    return isinstance(actor.inbox[0], SendFailed | Sent) or actor.deaf_until <= world.events


class Scheduler:
    """Draws the next event of a disturbed world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.rng
        kinds: dict[Callable[[], bool], int] = {
            self._deliver: 70,
            self._land: 30,
            self._timer: 12,
            self._compute: 8,
            self._inbox: 8,
            self._hand_out: 3,
        }
        self._kinds, self._shares = list(kinds), list(accumulate(kinds.values()))

    def step(self) -> None:
        """Make one event happen."""
        [chosen] = self._rng.choices(self._kinds, cum_weights=self._shares)
        if not chosen() and not self._deliver() and not self._land():
            self._timer()

    def _deliver(self) -> bool:
        world = self._world
        if world.outage_until > world.events:
            return False
        ends, now = world.log.ends, world.events
        choices = [  # what is `readable`, of all actors at once: this runs for most events
            (actor, place)
            for actor in awake(world)
            for place, cursor in actor.cursors.items()
            if (not cursor.end_told or cursor.offset < ends[place])
            and not cursor.paused
            and cursor.stalled_until <= now
        ]
        if not choices:
            return False
        world.deliver(*self._rng.choice(choices))
        return True

    def _land(self) -> bool:
        lanes = self._world.outbox.lanes()
        if not lanes or self._world.outage_until > self._world.events:
            return False
        self._world.land(self._rng.choice(lanes))
        return True

    def _timer(self) -> bool:
        actors = awake(self._world)
        if not actors:
            self._world.now_s += STEP_S
            self._world.note("nothing", "", "")
            return True
        self._world.tick(self._rng.choice(actors), self._rng.uniform(0.0, STEP_S))
        return True

    def _compute(self) -> bool:
        able = self._world.may_compute()
        if able:
            self._world.compute(self._rng.choice(able))
        return bool(able)

    def _inbox(self) -> bool:
        able = [actor for actor in awake(self._world) if listens(self._world, actor)]
        if able:
            self._world.open_inbox(self._rng.choice(able))
        return bool(able)

    def _hand_out(self) -> bool:
        return hand_out(self._world)
