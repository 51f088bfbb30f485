"""What the state of a partition is rebuilt from: version 0, or the snapshots that the last checkpoint made official."""

from collections.abc import Mapping

from driftline.broker.port import Position, Start
from driftline.consumers.server.shard import Shard
from driftline.consumers.server.snapshot_check import sound_tensor
from driftline.ledger.run_state import RunState
from driftline.rules import MASTER, FloatArray
from driftline.schemas.records import Checkpoint, Snapshot

Tensor = tuple[int, str]
"""A shard, and the name of one of its tensors."""


class Restoring:
    """The snapshots of one partition, as they are found.

    Attributes:
        version: that they are of.
        begin: where to read the snapshots from.
        read_to_end: whether the partition was searched to its end.
        deltas_from: the first delta that is needed to go on from the version; -1: where the partition begins.
    """

    def __init__(self, state: RunState, partition: int, checkpoint: Checkpoint | None) -> None:
        """Look up what is wanted.

        Args:
            state: of a run that has started.
            partition: of snapshots and deltas.
            checkpoint: from which to start; None: version 0.
        """
        self._start, self._layout, self._rule = state.start, state.layout, state.config.rule
        self._shards = frozenset(self._layout.shards_of(partition))
        self._found: dict[int, dict[str, FloatArray]] = {shard: {} for shard in self._shards}
        self.version = 0
        self.read_to_end = False
        self.begin: Position = Start.BEGINNING
        self.deltas_from = -1
        self._wanted: Mapping[Tensor, bytes] = {(one, MASTER): state.start.shards[one] for one in self._shards}
        if checkpoint is not None:
            self.version = checkpoint.version
            self.deltas_from = checkpoint.floors[partition]
            mine = [place for place in checkpoint.places if place.shard in self._shards]
            self._wanted = {(place.shard, place.tensor): place.digest for place in mine}
            self.begin = min((place.offset for place in mine), default=Start.END)

    def digest(self, shard: int, tensor: str) -> bytes:
        """Return the digest of a snapshot that is wanted."""
        return self._wanted[shard, tensor]

    def names(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot says that it is one of those."""
        wanted = self._wanted.get((snapshot.shard, snapshot.tensor))
        return snapshot.version == self.version and wanted == snapshot.digest

    def take(self, snapshot: Snapshot, value: bytes) -> bool:
        """Keep a snapshot if it is one of those, bit by bit; return whether it is.

        Raises:
            Undecodable: the payload has another size than the record says.
        """
        if not self.names(snapshot):
            return False
        values = sound_tensor(self._start, self._layout, snapshot, value)
        if values is not None:
            self._found[snapshot.shard][snapshot.tensor] = values
        return values is not None

    @property
    def missing(self) -> list[Tensor]:
        """What has not been found yet."""
        return [(shard, tensor) for shard, tensor in sorted(self._wanted) if tensor not in self._found[shard]]

    def shards(self) -> dict[int, Shard]:
        """Return the state of every shard; nothing may be missing."""
        if self.version == 0:
            return {
                shard: Shard(self._layout, self._rule, shard, tensors[MASTER]) for shard, tensors in self._found.items()
            }
        return {
            shard: Shard.restored(self._layout, self._rule, shard, self.version, tensors)
            for shard, tensors in self._found.items()
        }
