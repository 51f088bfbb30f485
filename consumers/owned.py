"""One partition of deltas that this server owns: its shards, and the deltas that wait for their version."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from driftline.consumers.shard import Shard
from driftline.schemas.layout import Layout
from driftline.schemas.records import GroupId, ShardReceipt

Clock = tuple[GroupId, int]


@dataclass(frozen=True, slots=True)
class HeldDelta:
    """A checked delta: its place in the log, and its gradient as a view over the record's bytes (float32)."""

    receipt: ShardReceipt
    gradient: npt.NDArray[np.float32]
    presence: tuple[bool, ...]


class OwnedPartition:
    """Shards of one partition.

    Attributes:
        partition: of the deltas topic.
        wanted: the shards that live in it.
        shards: those whose version 0 has been read; complete when it equals ``wanted``.
        held: checked deltas of clocks that some version still needs, by clock and shard.
        position: the next offset to be read.
    """

    def __init__(self, partition: int, layout: Layout) -> None:
        self.partition = partition
        self.wanted = frozenset(layout.shards_of(partition))
        self.shards: dict[int, Shard] = {}
        self.held: dict[Clock, dict[int, HeldDelta]] = {}
        self.position = 0
        self.version = 0

    @property
    def is_loaded(self) -> bool:
        """Whether every shard has its version 0."""
        return len(self.shards) == len(self.wanted)

    def holds(self, clock: Clock) -> bool:
        """Whether every delta of this clock for this partition is here."""
        return len(self.held.get(clock, {})) == len(self.wanted)
