"""Sends on their way to the log: in order within a partition for one producer, interleaved between producers."""

import random
from collections import deque
from dataclasses import replace

from driftline.schemas.effects import Send, SendFailed, Sent
from tests.simulation.run.actors import Actor
from tests.simulation.run.log import Place, RunLog
from tests.simulation.run.scenario import Fault

Lane = tuple[int, Place]
"""Number of a producer, and a partition. Number -n carries what producer n gave up and lands late."""


IN_FLIGHT = 3
"""Sends of a dead producer, a partition, that may still land: what it had not handed over dies with it."""


class Outbox:
    """All sends that have left a process and are not yet in the log.

    Args:
        prompt: probability that a send lands at once.
    """

    def __init__(self, log: RunLog, rng: random.Random, prompt: float) -> None:
        self._log = log
        self._rng = rng
        self.prompt = prompt
        self._lanes: dict[Lane, deque[Send]] = {}
        self._senders: dict[int, Actor] = {}

    def put(self, actor: Actor, send: Send, now_s: float) -> None:
        """Send a record, or fail to."""
        outcome = actor.errors.popleft() if actor.errors else None
        if outcome is not None:
            actor.inbox.append(SendFailed(send, outcome.value))
        if outcome is Fault.SEND_LATE:
            self._lanes.setdefault((-actor.number, (send.stream, send.partition)), deque()).append(send)
        elif outcome is not Fault.SEND_LOST:
            self._queue(actor, send if outcome is None else replace(send, tell=False), now_s)

    def _queue(self, actor: Actor, send: Send, now_s: float) -> None:
        lane = (actor.number, (send.stream, send.partition))
        waiting = self._lanes.get(lane)
        if waiting is None and self._rng.random() < self.prompt:
            self._append(actor, send, now_s)
        else:
            self._lanes.setdefault(lane, deque()).append(send)
            self._senders[actor.number] = actor

    def _append(self, actor: Actor | None, send: Send, now_s: float) -> None:
        offset = self._log.append(send, now_s)
        if send.tell and actor is not None:
            actor.inbox.append(Sent.of(send, offset))

    def lanes(self) -> list[Lane]:
        """Return the lanes in which something waits."""
        return list(self._lanes)

    def land(self, lane: Lane, now_s: float) -> Send:
        """Append the first send of a lane to the log."""
        waiting = self._lanes[lane]
        send = waiting.popleft()
        if not waiting:
            del self._lanes[lane]
        self._append(self._senders.get(lane[0]), send, now_s)
        return send

    def crash(self, actor: Actor) -> None:
        """A producer dies: what was in flight lands some time or never, the rest never."""
        for lane in [lane for lane in self._lanes if lane[0] == actor.number]:
            waiting = self._lanes.pop(lane)
            kept = self._rng.randint(0, min(len(waiting), IN_FLIGHT))
            if kept:
                late = self._lanes.setdefault((-actor.number, lane[1]), deque())
                late.extend(list(waiting)[:kept])
