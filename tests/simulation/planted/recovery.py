"""Bugs put on purpose into snapshots, checkpoints, and what goes on from them: the simulation must find each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from driftline.consumers.server.owned import OwnedPartition
from driftline.consumers.server.shard_server import ShardServer
from driftline.consumers.server.snapshotting import Snapshotting
from driftline.ledger.run_state import RunState
from driftline.rules import RULES
from driftline.schemas.effects import Effect, Send, Sent, Trim
from driftline.schemas.records import Checkpoint
from driftline.schemas.records.payload import snapshot_key
from tests.simulation.planted.planting import Planted, server_with
from tests.simulation.run.actors import Cores
from tests.simulation.run.scenario import Fault


class RestoresWithoutSteps(ShardServer):
    """Rebuilds tensors and forgets how many steps they have made."""

    def _loaded(self, owned: OwnedPartition) -> Iterable[Effect]:
        restoring = owned.restoring
        if restoring is not None and restoring.version:
            shards, fresh = restoring.shards(), RULES[self._state.config.rule.name].start()
            for shard in shards.values():
                shard._steps = [fresh for _ in shard._steps]
            restoring.shards = lambda: shards  # type: ignore[method-assign]
        return super()._loaded(owned)


class ReportsWhatIsOnItsWay(Snapshotting):
    """Says that snapshots are there when they have been sent."""

    def go_on(self) -> list[Effect]:
        effects = super().go_on()
        for send in [one for one in effects if isinstance(one, Send) and one.tell]:
            effects += self.on_sent(Sent.of(send, 0))
        return effects


class NeverWaits(Snapshotting):
    """Lets a version be applied while the one before is being written."""

    def is_writing(self, partition: int) -> bool:
        del partition
        return False


class DeletesWhatIsOfficial(Snapshotting):
    """Deletes the snapshots that the last checkpoint names, instead of those before."""

    def _superseded(self, partition: int) -> list[bytes]:
        checkpoint, layout = self._state.checkpoint, self._state.layout
        if checkpoint is None:
            return []
        return [
            snapshot_key(place.shard, checkpoint.version, place.tensor, place.digest)
            for place in checkpoint.places
            if layout.partition_of(place.shard) == partition
        ]


class TrimsAsFarAsItReads(Snapshotting):
    """Deletes every delta that the checkpoint's version was made of, and what has come since."""

    def on_checkpoint(self, checkpoint: Checkpoint, partitions: Any) -> list[Effect]:
        effects = super().on_checkpoint(checkpoint, partitions)
        return [Trim(one.stream, one.partition, one.before + 1) if isinstance(one, Trim) else one for one in effects]


class ForgetsWhatIsHeld(OwnedPartition):
    """Takes its reading position for the first delta that is needed, whatever it holds."""

    def floor(self) -> int:
        return self.position


class NamesAPlaceBehind(Snapshotting):
    """Names an offset behind the snapshot: whoever reads from there never finds it."""

    def on_sent(self, sent: Sent) -> list[Effect]:
        return super().on_sent(replace(sent, offset=sent.offset + 1))


def _writing(snapshotting: type[Snapshotting]) -> type[ShardServer]:
    class Writing(ShardServer):
        def __init__(self, name: str, incarnation: bytes, state: RunState) -> None:
            super().__init__(name, incarnation, state)
            self._snapshots = snapshotting(name, incarnation, state)

    return Writing


class FloorsTooHigh(ShardServer):
    """Says what is needed as if nothing were held."""

    def _rebuild(self, partition: int) -> Iterable[Effect]:
        effects = super()._rebuild(partition)
        self.owned[partition].__class__ = ForgetsWhatIsHeld
        return effects


MOVES = (Fault.MOVE, Fault.ZOMBIE, Fault.CRASH_SERVER, Fault.STALL, Fault.PAUSE)

RECOVERY = tuple(
    Planted(name, breaks, Cores(server=server_with(shards=shards)), faults, trims=True)
    for name, breaks, shards, faults in (
        ("restores tensors without step counts", "4", RestoresWithoutSteps, MOVES),
        ("reports snapshots that are on their way", "6", _writing(ReportsWhatIsOnItsWay), None),
        ("applies versions while a snapshot is written", "4", _writing(NeverWaits), None),
        ("deletes official snapshots", "6", _writing(DeletesWhatIsOfficial), None),
        ("deletes deltas that are needed", "6", _writing(TrimsAsFarAsItReads), None),
        ("forgets held deltas when it says what is needed", "6", FloorsTooHigh, None),
        ("names an offset behind a snapshot", "6", _writing(NamesAPlaceBehind), None),
    )
)
"""Each with the number of the invariant that it breaks."""
