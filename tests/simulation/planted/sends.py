"""Bugs in what servers and workers send and read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from driftline.broker.topics import Stream
from driftline.consumers.server.server import Server
from driftline.ledger.follower import Follower, Model
from driftline.ledger.run_state import RunState
from driftline.producers.clocks import is_last
from driftline.producers.proposal import Offer
from driftline.producers.session import WorkerSession
from driftline.schemas.codec import decode, encode, peek_type
from driftline.schemas.effects import Effect, Input, Send, SendFailed, StopReading
from driftline.schemas.model.tensors import decode_fp32
from driftline.schemas.records import Contribution, Parameters, Ready, Skip
from tests.simulation.planted.planting import Planted, sends, starts_term
from tests.simulation.run.actors import Cores

MOST_PARTITIONS = 4
"""Of a scenario."""


class GivesUpReceipts(Server):
    """Does not send a receipt again when the send failed."""

    def on(self, event: Input) -> Iterator[Effect]:
        failed = event.send if isinstance(event, SendFailed) else None
        return (effect for effect in super().on(event) if effect is not failed)


class StopsSharedReading(Server):
    """Lets a candidate that needs no snapshots any more stop the reading that its shards are waiting for."""

    def on(self, event: Input) -> Iterator[Effect]:
        wanted = [partition for partition in range(MOST_PARTITIONS) if self.coordinator.wants_snapshots(partition)]
        yield from super().on(event)
        for partition in wanted:
            if not self.coordinator.wants_snapshots(partition):
                yield StopReading(Stream.SNAPSHOTS, partition)


class SaysItOnce(WorkerSession):
    """Repeats nothing when a new coordinator begins."""

    def on(self, event: Input) -> list[Effect]:
        effects = super().on(event)
        repeats = starts_term(event)
        return [one for one in effects if not repeats or not sends(one, Contribution, Skip, Ready)]


class StartsEarly(WorkerSession):
    """Starts the next clock on whatever version it has."""

    def may_start(self) -> Model | None:
        if self.group is None or self.finished is not None or is_last(self.state, self.pace):
            return None
        return self.reader.follower.newest


class RecomputesASpentClock(WorkerSession):
    """Announces a clock again with other numbers when a new coordinator begins."""

    def on(self, event: Input) -> list[Effect]:
        effects = super().on(event)
        return [_recomputed(one) if starts_term(event) else one for one in effects]


def _recomputed(effect: Effect) -> Effect:
    if not isinstance(effect, Send) or not sends(effect, Contribution):
        return effect
    record: Any = decode(bytes(effect.value or b""))
    return replace(effect, value=encode(replace(record, cursor=record.cursor + 1)))


class TakesHalfAModel(Follower):
    """Takes a version as complete when its first shard has come."""

    def __init__(self, state: RunState) -> None:
        super().__init__(state)
        self.ledger = state

    def on_parameters(self, value: bytes | None) -> bool:
        before = self.newest
        complete = super().on_parameters(value)
        record = decode(value) if peek_type(value) is Parameters else None
        if complete or before is None or not isinstance(record, Parameters):
            return complete
        if self.ledger.heads.get(record.version) != record.head or record.version <= before.version:
            return False
        flat = np.array(before.flat)
        flat[slice(*self.ledger.layout.shard_range(record.shard))] = decode_fp32(record.payload, record.elements)
        self.newest = Model(record.version, flat)
        return True


class ReadsHalfModels(WorkerSession):
    """Stands on a follower that takes half a model."""

    def __init__(
        self, name: str, incarnation: bytes, offer: Offer, run_uuid: bytes, state: RunState | None = None
    ) -> None:
        super().__init__(name, incarnation, offer, run_uuid, state=state)
        self.reader.follower = TakesHalfAModel(self.state)


SENDS = (
    Planted("gives up receipts", "9", Cores(server=GivesUpReceipts)),
    Planted("stops shared reading", "9", Cores(server=StopsSharedReading)),
    Planted("says it once", "9", Cores(worker=SaysItOnce)),
    Planted("starts early", "7", Cores(worker=StartsEarly)),
    Planted("recomputes a spent clock", "3", Cores(worker=RecomputesASpentClock)),
    Planted("takes half a model", "5", Cores(worker=ReadsHalfModels)),
)
