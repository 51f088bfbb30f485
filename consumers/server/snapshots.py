"""Snapshots: how the state of a shard becomes some, which ones are sound, and what a partition is rebuilt from."""

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from driftline.broker.port import Position, Start
from driftline.consumers.server.shard import Shard
from driftline.ledger.run_state import RunState
from driftline.rules import MASTER, STEPS, FloatArray
from driftline.schemas.digests import seal, verify_digest
from driftline.schemas.model.layout import Layout
from driftline.schemas.model.tensors import decode_fp32, encode_fp32
from driftline.schemas.records import NO_HASH, Checkpoint, RunStart, Snapshot
from driftline.schemas.records.payload import snapshot_key

Tensor = tuple[int, str]
"""A shard, and the name of one of its tensors."""


class Restoring:
    """The snapshots that one partition is rebuilt from, as they are found: version 0, or those of the last checkpoint.

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


def names_version_0(start: RunStart, snapshot: Snapshot) -> bool:
    """Whether a snapshot says that it is the version 0 that the run started from, in its shard."""
    known = 0 <= snapshot.shard < len(start.shards)
    return known and snapshot.version == 0 and start.shards[snapshot.shard] == snapshot.digest


def sound_tensor(start: RunStart, layout: Layout, snapshot: Snapshot, value: bytes) -> FloatArray | None:
    """Return the numbers of a snapshot whose digest is known to be wanted, if its bytes have that digest.

    Args:
        start: of the run.
        layout: of the run.
        snapshot: as decoded from ``value``.
        value: the record's bytes; the result is a view over them.

    Returns:
        float32; shape (elements of the shard,), but for the step counts, which are float64 values as their bytes.

    Raises:
        Undecodable: the payload has another size than the record says.
    """
    if not verify_digest(start.run, value, snapshot):
        return None
    tensor = decode_fp32(snapshot.payload, snapshot.elements)
    begin, stop = layout.shard_range(snapshot.shard)
    return tensor if snapshot.tensor == STEPS or snapshot.elements == stop - begin else None


def snapshots_of(
    start: RunStart, shard: Shard, index: int, head: bytes
) -> Iterator[tuple[Snapshot, bytes, npt.NDArray[np.uint8]]]:
    """Yield the snapshots of a shard's state, one after the other: record, key and bytes; each copies one tensor."""
    for name, tensor in {**shard.views(), STEPS: shard.packed_steps()}.items():
        record = Snapshot(
            digest=NO_HASH,
            version=shard.version,
            head=head,
            shard=index,
            tensor=name,
            codec="fp32",
            elements=tensor.size,
            payload=encode_fp32(tensor),
        )
        value, digest = seal(start.run, record)
        yield record, snapshot_key(index, shard.version, name, digest), value


def digest_in_key(key: bytes) -> bytes:
    """Return the digest that the key of a snapshot names."""
    return bytes.fromhex(key.rpartition(b"/")[2].decode("ascii"))
