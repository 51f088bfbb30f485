"""One partition of deltas, as a server owns it and `verify` recomputes it: its shards, and the deltas they wait for."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from driftline.consumers.server.shard import Shard, ShardBuffers
from driftline.consumers.server.snapshots import Restoring
from driftline.errors import Undecodable
from driftline.rules import FloatArray
from driftline.schemas.digests import verify_digest
from driftline.schemas.model.dtypes import BUFFER
from driftline.schemas.model.layout import Layout
from driftline.schemas.model.tensors import decode_fp32, is_finite, unpack_presence
from driftline.schemas.records import Delta, GroupId, ShardReceipt, Use, Version

Clock = tuple[GroupId, int]


@dataclass(frozen=True, slots=True)
class HeldDelta:
    """A sound delta.

    Attributes:
        receipt: its place in the log, and its digest.
        gradient: float32, a view over the record's bytes; buffers are in it as their bytes.
        presence: which pieces of the shard it has a gradient or a buffer for.
    """

    receipt: ShardReceipt
    gradient: FloatArray
    presence: tuple[bool, ...]


def check_delta(run: bytes, layout: Layout, partition: int, delta: Delta, value: bytes, offset: int) -> HeldDelta:
    """Check digest, place and shape of a delta.

    Args:
        run: its UUID.
        layout: of the run.
        partition: in which the record is.
        delta: as decoded from ``value``.
        value: the record's bytes.
        offset: of the record.

    Raises:
        Undecodable: says what is wrong; no worker of this run would write such a record.
    """
    if not 0 <= delta.shard < layout.shard_count or layout.partition_of(delta.shard) != partition:
        raise Undecodable(f"shard {delta.shard} does not live in partition {partition}")
    start, stop = layout.shard_range(delta.shard)
    if delta.elements != stop - start:
        raise Undecodable(f"shard {delta.shard} has {stop - start} elements, the delta says {delta.elements}")
    if not verify_digest(run, value, delta):
        raise Undecodable("the delta is not what its digest says")
    presence = unpack_presence(delta.presence, len(layout.pieces(delta.shard)))
    receipt = ShardReceipt(shard=delta.shard, partition=partition, offset=offset, digest=delta.digest)
    return HeldDelta(receipt, decode_fp32(delta.payload, delta.elements), tuple(bool(flag) for flag in presence))


def not_finite(layout: Layout, delta: HeldDelta) -> str:
    """Name the first tensor of a delta whose gradient holds a NaN or an infinity, or return nothing.

    Buffers may hold anything: a mask of -inf, or bytes that are no numbers at all.
    """
    if is_finite(delta.gradient):
        return ""
    shard = delta.receipt.shard
    for piece in layout.pieces(shard):
        segment = layout.segments[piece.segment_index]
        if segment.kind != BUFFER and not is_finite(delta.gradient[piece.start : piece.stop]):
            return f"not finite: {segment.name} in shard {shard}"
    return ""


class OwnedPartition:
    """The shards of one partition, and what the next versions need to change them.

    Attributes:
        partition: of the deltas topic.
        wanted: the shards that live in it.
        restoring: what the state is rebuilt from; None once it is.
        shards: the state of each of them, once it is rebuilt.
        held: checked deltas of clocks that some version still needs, by clock and shard.
        position: the next offset to be read.
        version: whose state this is, or is to be rebuilt.
    """

    def __init__(self, partition: int, layout: Layout, restoring: Restoring) -> None:
        self.partition = partition
        self.wanted = frozenset(layout.shards_of(partition))
        self.restoring: Restoring | None = restoring
        self.shards: dict[int, Shard] = {}
        self.held: dict[Clock, dict[int, HeldDelta]] = {}
        self.position = 0
        self.version = restoring.version

    @property
    def is_loaded(self) -> bool:
        """Whether the state of every shard is here."""
        return self.restoring is None

    def load(self) -> Restoring:
        """Take over the rebuilt state; nothing of it may be missing. Returns what it was rebuilt from."""
        restored = self.restoring
        if restored is None:
            raise AssertionError(f"partition {self.partition} is loaded already")
        self.shards = restored.shards()
        self.restoring = None
        return restored

    def floor(self) -> int:
        """Return the first offset whose delta may be needed by a version that follows this one."""
        held = [one.receipt.offset for shards in self.held.values() for one in shards.values()]
        return min(held, default=self.position)

    def holds(self, clock: Clock) -> bool:
        """Whether every delta of this clock for this partition is here."""
        return len(self.held.get(clock, {})) == len(self.wanted)

    def holds_all_of(self, record: Version) -> bool:
        """Whether every delta that a version uses of this partition is here."""
        return all(use.kind != "delta" or self.holds((use.group, use.clock)) for use in record.uses)

    def apply(self, record: Version) -> None:
        """Change every shard as a version says, and drop the deltas that it settles; all of them must be here.

        Raises:
            NonFiniteState: the version makes a shard infinite or NaN. The partition stays at the version before.
        """
        uses = [use for use in record.uses if use.kind == "delta"]
        for index, shard in self.shards.items():
            terms, buffers = self.terms(uses, index), self.buffers(record, index)
            shard.apply(record.version, terms, record.learning_rates, record.rho, buffers)
        self.version = record.version
        for use in record.uses:
            self.held.pop((use.group, use.clock), None)

    def terms(self, uses: Sequence[Use], shard: int) -> list[tuple[np.float32, FloatArray, tuple[bool, ...]]]:
        """Return the terms of a version's sum in canonical order, which is the order in which the ledger lists them."""
        held = [self.held[use.group, use.clock][shard] for use in uses]
        return [(np.float32(use.coefficient), one.gradient, one.presence) for use, one in zip(uses, held, strict=True)]

    def buffers(self, record: Version, shard: int) -> ShardBuffers | None:
        """Return the buffers that a version takes over, of one shard; None if it takes none."""
        if record.buffers_of < 0:
            return None
        use = record.uses[record.buffers_of]
        held = self.held[use.group, use.clock][shard]
        return held.gradient, held.presence
