"""Bugs in how servers take deltas, and apply and publish versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from driftline.consumers.server.partition import OwnedPartition
from driftline.consumers.server.server import Server
from driftline.consumers.server.shard import ShardBuffers
from driftline.consumers.server.shard_server import ShardServer
from driftline.ledger.run_state import Folded, RunState
from driftline.schemas.effects import Effect, Input, Received
from driftline.schemas.model.tensors import is_finite
from driftline.schemas.records import Delta, Parameters, Receipt, ServerState, SnapshotReport, TermStart, Use, Version
from tests.simulation.planted.planting import Planted, sends, server_with
from tests.simulation.run.actors import Cores
from tests.simulation.run.scenario import Fault


class SumsAsDeltasArrive(OwnedPartition):
    """Adds up in the order of the log, not in that of the ledger."""

    def terms(self, uses: Sequence[Use], shard: int) -> list[Any]:
        arrived = sorted(uses, key=lambda use: self.held[use.group, use.clock][shard].receipt.offset)
        return super().terms(arrived, shard)


class NeverRepeatsReceipts(ShardServer):
    """Repeats nothing for a new coordinator, receipts among it."""

    def on_ledger(self, folded: Folded) -> Iterator[Effect]:
        is_new_term = isinstance(folded.record, TermStart)
        repeated = (Receipt, ServerState, SnapshotReport)
        return (one for one in super().on_ledger(folded) if not is_new_term or not sends(one, *repeated))

    def on_revoked(self, partitions: Iterable[int]) -> list[Effect]:
        return [one for one in super().on_revoked(partitions) if not sends(one, Receipt, ServerState, SnapshotReport)]


class NeverPublishes(Server):
    """Applies versions and keeps them to itself."""

    def on(self, event: Input) -> Iterator[Effect]:
        return (effect for effect in super().on(event) if not sends(effect, Parameters))


class KeepsTheLastCopy(ShardServer):
    """Lets a later delta replace the first one of the same identity."""

    def on_delta(self, delta: Delta, received: Received) -> Iterable[Effect]:
        owned = self.owned.get(received.partition)
        if owned is not None:
            owned.held.get((delta.group, delta.clock), {}).pop(delta.shard, None)
        return super().on_delta(delta, received)


class AppliesWhatIsThere(OwnedPartition):
    """Does not wait for all deltas that a version names."""

    def holds_all_of(self, record: Version) -> bool:
        del record
        return True

    def terms(self, uses: Sequence[Use], shard: int) -> list[Any]:
        return super().terms([use for use in uses if self._is_there(use, shard)], shard)

    def buffers(self, record: Version, shard: int) -> ShardBuffers | None:
        if record.buffers_of < 0 or not self._is_there(record.uses[record.buffers_of], shard):
            return None
        return super().buffers(record, shard)

    def _is_there(self, use: Use, shard: int) -> bool:
        return shard in self.held.get((use.group, use.clock), {})


class TakesTheLastBuffers(OwnedPartition):
    """Takes over the buffers that arrived last, not those of the contribution that the ledger names."""

    def buffers(self, record: Version, shard: int) -> ShardBuffers | None:
        arrived = [self.held[use.group, use.clock][shard] for use in record.uses if use.kind == "delta"]
        last = max(arrived, key=lambda held: held.receipt.offset, default=None)
        return None if last is None else (last.gradient, last.presence)


class AsksBuffersToBeFinite(ShardServer):
    """Refuses a delta because of what its buffers would be as numbers."""

    def on_delta(self, delta: Delta, received: Received) -> Iterable[Effect]:
        if not is_finite(np.frombuffer(delta.payload, "<f4")):
            self.refused.setdefault((delta.group, delta.clock), "not finite")
        return super().on_delta(delta, received)


class SkipsTheTail(ShardServer):
    """Takes a partition over at the current version without folding what was before."""

    def __init__(self, name: str, incarnation: bytes, state: RunState) -> None:
        super().__init__(name, incarnation, state)
        self.ledger = state

    def go_on(self) -> Iterator[Effect]:
        for owned in self.owned.values():
            if not owned.is_loaded:
                owned.version = self.ledger.version
        return super().go_on()


MOVES = (Fault.MOVE, Fault.ZOMBIE, Fault.CRASH_SERVER, Fault.PAUSE)
NEW_COORDINATORS = (Fault.MOVE, Fault.CRASH_SERVER, Fault.LOST_CLAIM, Fault.DUPLICATE)

SHARDS = (
    Planted("sums as deltas arrive", "4", Cores(server=server_with(partition=SumsAsDeltasArrive))),
    Planted(
        "never repeats receipts",
        "9",
        Cores(server=server_with(shards=NeverRepeatsReceipts)),
        NEW_COORDINATORS,
        seeds=80,
    ),
    Planted("never publishes", "9", Cores(server=NeverPublishes)),
    Planted("keeps the last copy", "4", Cores(server=server_with(shards=KeepsTheLastCopy))),
    Planted("applies what is there", "4", Cores(server=server_with(partition=AppliesWhatIsThere))),
    Planted("takes the last buffers", "4", Cores(server=server_with(partition=TakesTheLastBuffers)), buffers=True),
    Planted("asks buffers to be finite", "3", Cores(server=server_with(shards=AsksBuffersToBeFinite)), buffers=True),
    Planted("skips the tail", "4", Cores(server=server_with(shards=SkipsTheTail)), MOVES),
)
