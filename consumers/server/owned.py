"""One partition of deltas that this server owns: its shards, and the deltas that wait for their version."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from driftline.consumers.server.restoring import Restoring
from driftline.consumers.server.shard import Shard, ShardBuffers
from driftline.rules import FloatArray
from driftline.schemas.model.layout import Layout
from driftline.schemas.records import GroupId, ShardReceipt, Use, Version

Clock = tuple[GroupId, int]


@dataclass(frozen=True, slots=True)
class HeldDelta:
    """A checked delta: its place in the log, and its payload as a view over the record's bytes (float32)."""

    receipt: ShardReceipt
    gradient: FloatArray
    presence: tuple[bool, ...]


class OwnedPartition:
    """Shards of one partition.

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
