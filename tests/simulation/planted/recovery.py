"""Bugs put on purpose into snapshots, checkpoints, and what goes on from them: the simulation must find each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from driftline.broker.topics import Stream
from driftline.consumers.server.partition import OwnedPartition
from driftline.consumers.server.shard import STEPS, Shard
from driftline.consumers.server.shard_server import ShardServer
from driftline.consumers.server.snapshotting import Snapshotting
from driftline.ledger.run_state import RunState
from driftline.schemas.effects import Effect, Send, Sent, Trim
from driftline.schemas.records import Checkpoint
from driftline.schemas.records.payload import snapshot_key
from tests.simulation.planted.planting import Planted, server_with
from tests.simulation.run.actors import Cores
from tests.simulation.run.scenario import Fault


class RestoresWithoutSteps(ShardServer):
    """Rebuilds tensors and forgets how many steps they have made."""

    def __init__(self, name: str, incarnation: bytes, state: RunState) -> None:
        super().__init__(name, incarnation, state)
        self.ledger = state
        self.loaded: dict[int, OwnedPartition] = {}

    def go_on(self) -> Iterator[Effect]:
        for number, owned in self.owned.items():
            if owned.is_loaded and self.loaded.get(number) is not owned:
                self.loaded[number] = owned
                owned.shards = {index: self._without_steps(index, shard) for index, shard in owned.shards.items()}
        return super().go_on()

    def _without_steps(self, index: int, shard: Shard) -> Shard:
        layout, rule = self.ledger.layout, self.ledger.config.rule
        fresh = Shard(layout, rule, index, shard.masters)
        tensors = {**shard.tensors(), STEPS: fresh.packed_steps()}
        return Shard.restored(layout, rule, index, shard.version, tensors)


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
    """Deletes the snapshots that the last checkpoint names, too."""

    def on_checkpoint(self, checkpoint: Checkpoint, partitions: Any) -> list[Effect]:
        effects = super().on_checkpoint(checkpoint, partitions)
        trimmed = {one.partition: one for one in effects if isinstance(one, Trim)}
        keys = [snapshot_key(one.shard, checkpoint.version, one.tensor, one.digest) for one in checkpoint.places]
        return effects + [Send(Stream.SNAPSHOTS, partition, None, key) for partition in trimmed for key in keys]


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
    """Names an offset behind the snapshot: a reader that begins there never finds it."""

    def on_sent(self, sent: Sent) -> list[Effect]:
        return super().on_sent(replace(sent, offset=sent.offset + 1))


MOVES = (Fault.MOVE, Fault.ZOMBIE, Fault.CRASH_SERVER, Fault.STALL, Fault.PAUSE)

RECOVERY = tuple(
    Planted(name, breaks, Cores(server=server), faults, trims=True)
    for name, breaks, server, faults in (
        ("restores tensors without step counts", "4", server_with(shards=RestoresWithoutSteps), MOVES),
        ("reports snapshots that are on their way", "6", server_with(snapshots=ReportsWhatIsOnItsWay), None),
        ("applies versions while a snapshot is written", "4", server_with(snapshots=NeverWaits), None),
        ("deletes official snapshots", "6", server_with(snapshots=DeletesWhatIsOfficial), None),
        ("deletes deltas that are needed", "6", server_with(snapshots=TrimsAsFarAsItReads), None),
        ("forgets held deltas when it says what is needed", "6", server_with(partition=ForgetsWhatIsHeld), None),
        ("names an offset behind a snapshot", "6", server_with(snapshots=NamesAPlaceBehind), None),
    )
)
"""Each with the number of the invariant that it breaks."""
