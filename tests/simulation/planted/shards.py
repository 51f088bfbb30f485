"""Bugs in how servers take deltas, and apply and publish versions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from driftline.consumers.server.owned import OwnedPartition
from driftline.consumers.server.shard_server import ShardServer
from driftline.schemas.effects import Effect, Received
from driftline.schemas.model.tensors import is_finite
from driftline.schemas.records import Delta, Version
from tests.simulation.planted.planting import Planted, server_with
from tests.simulation.run.actors import Cores
from tests.simulation.run.scenario import Fault


class SumsAsDeltasArrive(ShardServer):
    """Adds up in the order of the log, not in that of the ledger."""

    @staticmethod
    def _terms(owned: OwnedPartition, uses: Any, shard: int) -> Any:
        arrived = sorted(uses, key=lambda use: owned.held[use.group, use.clock][shard].receipt.offset)
        return ShardServer._terms(owned, arrived, shard)


class NeverRepeatsReceipts(ShardServer):
    """Says nothing again to a new coordinator."""

    def _repeat(self) -> list[Effect]:
        return []


class NeverPublishes(ShardServer):
    """Applies versions and keeps them to itself."""

    def _published(self, owned: OwnedPartition, version: int) -> list[Effect]:
        del owned, version
        return []


class KeepsTheLastCopy(ShardServer):
    """Lets a later delta replace the first one of the same identity."""

    def _hold(self, owned: Any, clock: Any, delta: Any, checked: Any, offset: int) -> Iterable[Effect]:
        owned.held.get(clock, {}).pop(delta.shard, None)
        return super()._hold(owned, clock, delta, checked, offset)


class AppliesWhatIsThere(ShardServer):
    """Does not wait for all deltas that a version names."""

    def _can_apply(self, owned: OwnedPartition) -> bool:
        return owned.is_loaded and owned.version + 1 in self._state.versions

    @staticmethod
    def _terms(owned: OwnedPartition, uses: Any, shard: int) -> Any:
        there = [use for use in uses if shard in owned.held.get((use.group, use.clock), {})]
        return ShardServer._terms(owned, there, shard)

    @staticmethod
    def _buffers(owned: OwnedPartition, record: Version, shard: int) -> Any:
        if record.buffers_of < 0:
            return None
        use = record.uses[record.buffers_of]
        is_there = shard in owned.held.get((use.group, use.clock), {})
        return ShardServer._buffers(owned, record, shard) if is_there else None


class TakesTheLastBuffers(ShardServer):
    """Takes over the buffers that arrived last, not those of the contribution that the ledger names."""

    @staticmethod
    def _buffers(owned: OwnedPartition, record: Version, shard: int) -> Any:
        arrived = [owned.held[use.group, use.clock][shard] for use in record.uses if use.kind == "delta"]
        last = max(arrived, key=lambda held: held.receipt.offset, default=None)
        return None if last is None else (last.gradient, last.presence)


class AsksBuffersToBeFinite(ShardServer):
    """Refuses a delta because of what its buffers would be as numbers."""

    def on_delta(self, delta: Delta, received: Received) -> Iterable[Effect]:
        if not is_finite(np.frombuffer(delta.payload, "<f4")):
            return self._refuse((delta.group, delta.clock), "not finite")
        return super().on_delta(delta, received)


class SkipsTheTail(ShardServer):
    """Takes a partition over at the current version without folding what was before."""

    def _activate(self) -> Iterable[Effect]:
        before = set(self.owned)
        effects = super()._activate()
        for partition in set(self.owned) - before:
            self.owned[partition].version = self._state.version
        return effects


MOVES = (Fault.MOVE, Fault.ZOMBIE, Fault.CRASH_SERVER, Fault.PAUSE)
NEW_COORDINATORS = (Fault.MOVE, Fault.CRASH_SERVER, Fault.LOST_CLAIM, Fault.DUPLICATE)

SHARDS = (
    Planted("sums as deltas arrive", "4", Cores(server=server_with(shards=SumsAsDeltasArrive))),
    Planted(
        "never repeats receipts",
        "9",
        Cores(server=server_with(shards=NeverRepeatsReceipts)),
        NEW_COORDINATORS,
        seeds=80,
    ),
    Planted("never publishes", "9", Cores(server=server_with(shards=NeverPublishes))),
    Planted("keeps the last copy", "4", Cores(server=server_with(shards=KeepsTheLastCopy))),
    Planted("applies what is there", "4", Cores(server=server_with(shards=AppliesWhatIsThere))),
    Planted("takes the last buffers", "4", Cores(server=server_with(shards=TakesTheLastBuffers)), buffers=True),
    Planted("asks buffers to be finite", "3", Cores(server=server_with(shards=AsksBuffersToBeFinite)), buffers=True),
    Planted("skips the tail", "4", Cores(server=server_with(shards=SkipsTheTail)), MOVES),
)
