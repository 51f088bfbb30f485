"""Writing snapshots, reporting them to the coordinator, and deleting what they replace.

A partition stands still at a snapshot point until its tensors have been handed out, a few MiB for each input of the
server, so that memory stays flat; deltas and receipts go on. What was sent is reported when every tensor of the
partition is acknowledged with its offset. A server that passes the version again
writes it again, with the same bytes and keys.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from driftline.broker.topics import Stream
from driftline.consumers.server.partition import OwnedPartition
from driftline.consumers.server.snapshots import digest_in_key, snapshots_of
from driftline.ledger.run_state import RunState
from driftline.rules import MASTER
from driftline.schemas.codec import encode
from driftline.schemas.effects import Effect, Send, Sent, Trim
from driftline.schemas.records import Checkpoint, SnapshotPlace, SnapshotReport
from driftline.schemas.records.payload import snapshot_key

PIECE_BYTES = 4 << 20
"""Handed out for one input of the server, at least one shard."""

Tensor = tuple[int, str]


@dataclass(slots=True)
class _Written:
    """The snapshots of one partition at one version."""

    version: int
    head: bytes
    floor: int
    awaited: dict[bytes, Tensor] = field(default_factory=dict)
    places: dict[Tensor, SnapshotPlace] = field(default_factory=dict)
    keys: list[bytes] = field(default_factory=list)
    handed_out: bool = False

    @property
    def is_durable(self) -> bool:
        return self.handed_out and not self.awaited


class Snapshotting:
    """Snapshots of the partitions of one server.

    Args:
        name: of the server.
        incarnation: of the server, 16 bytes.
        state: fold of the ledger, shared with the process.
    """

    def __init__(self, name: str, incarnation: bytes, state: RunState) -> None:
        self._name = name
        self._incarnation = incarnation
        self._state = state
        self._todo: dict[int, tuple[_Written, OwnedPartition, deque[int]]] = {}
        self._written: dict[int, list[_Written]] = {}

    # -- writing -----------------------------------------------------------------------------------------------------

    def begin(self, owned: OwnedPartition) -> None:
        """Start to write the version that a partition is at, if the ledger makes it a snapshot point."""
        config, checkpoint = self._state.config, self._state.checkpoint
        official = -1 if checkpoint is None else checkpoint.version
        if not config.is_snapshot_point(owned.version) or owned.version <= official:
            return
        written = _Written(owned.version, self._state.heads[owned.version], owned.floor())
        self._written.setdefault(owned.partition, []).append(written)
        self._todo[owned.partition] = written, owned, deque(sorted(owned.shards))

    def is_writing(self, partition: int) -> bool:
        """Whether a partition must not change yet."""
        return partition in self._todo

    @property
    def is_busy(self) -> bool:
        """Whether something is still to be handed out."""
        return bool(self._todo)

    def go_on(self) -> list[Effect]:
        """Hand out the next piece."""
        effects: list[Effect] = []
        size = 0
        while self._todo and size < PIECE_BYTES:
            partition, (written, owned, shards) = next(iter(self._todo.items()))
            if shards:
                size += self._hand_out(written, owned, shards.popleft(), effects)
                continue
            written.handed_out = True
            del self._todo[partition]
            effects += self._report(partition, written)
        return effects

    def _hand_out(self, written: _Written, owned: OwnedPartition, shard: int, effects: list[Effect]) -> int:
        size = 0
        for record, key, value in snapshots_of(self._state.start, owned.shards[shard], shard, written.head):
            written.awaited[key] = record.shard, record.tensor
            written.keys.append(key)
            effects.append(Send(Stream.SNAPSHOTS, owned.partition, value, key, tell=True))
            size += value.size
        return size

    # -- reporting ---------------------------------------------------------------------------------------------------

    def on_sent(self, sent: Sent) -> list[Effect]:
        """A snapshot is durable at an offset; report the partition once all of it is."""
        key, partition = sent.key, sent.partition
        for written in self._written.get(partition, ()):
            tensor = None if key is None else written.awaited.pop(key, None)
            if key is not None and tensor is not None:
                written.places[tensor] = SnapshotPlace(
                    shard=tensor[0], tensor=tensor[1], offset=sent.offset, digest=digest_in_key(key)
                )
                return self._report(partition, written)
        return []

    def _report(self, partition: int, written: _Written) -> list[Effect]:
        if not written.is_durable:
            return []
        report = SnapshotReport(
            run=self._state.start.run,
            server=self._name,
            incarnation=self._incarnation,
            version=written.version,
            head=written.head,
            partition=partition,
            floor=written.floor,
            places=tuple(written.places[tensor] for tensor in sorted(written.places)),
        )
        return [Send(Stream.EVENTS, 0, encode(report))]

    def repeat(self) -> list[Effect]:
        """Report again what the ledger does not hold: a new coordinator knows nothing of it."""
        pairs = [(partition, one) for partition, written in self._written.items() for one in written]
        return [effect for partition, one in pairs for effect in self._report(partition, one)]

    # -- clearing away -----------------------------------------------------------------------------------------------

    def on_checkpoint(self, checkpoint: Checkpoint, partitions: Iterable[int]) -> list[Effect]:
        """A checkpoint counts: forget what it makes needless, and delete it unless the run keeps everything.

        Args:
            checkpoint: the newest.
            partitions: those of ours that have come as far as the checkpoint.
        """
        effects: list[Effect] = []
        for partition in partitions:
            older = [one for one in self._written.get(partition, ()) if one.version < checkpoint.version]
            self._written[partition] = [
                one for one in self._written.get(partition, ()) if one.version > checkpoint.version
            ]
            if self._state.config.trims:
                keys = [key for one in older for key in one.keys] + self._superseded(partition)
                effects += [Send(Stream.SNAPSHOTS, partition, None, key) for key in dict.fromkeys(keys)]
                effects.append(Trim(Stream.DELTAS, partition, checkpoint.floors[partition]))
        return effects

    def _superseded(self, partition: int) -> list[bytes]:
        """Return the keys of what was official before the last checkpoint."""
        state, layout = self._state, self._state.layout
        before = state.superseded
        if before is None:
            shards = layout.shards_of(partition)
            return [snapshot_key(shard, 0, MASTER, state.start.shards[shard]) for shard in shards]
        return [
            snapshot_key(place.shard, before.version, place.tensor, place.digest)
            for place in before.places
            if layout.partition_of(place.shard) == partition
        ]

    def forget(self, partitions: Iterable[int]) -> None:
        """These are another server's now."""
        for partition in partitions:
            self._todo.pop(partition, None)
            self._written.pop(partition, None)
