"""Partitions that a server owns, and how their state is rebuilt: from the last checkpoint, or from version 0.

What is missing may have been deleted because a checkpoint that we have yet to read makes it needless. So a server gives
up only after it has read the ledger to where it ended after that was found.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from driftline.broker.topics import Stream, topic_name
from driftline.consumers.server.partition import OwnedPartition
from driftline.consumers.server.snapshots import Restoring
from driftline.consumers.server.snapshotting import Snapshotting
from driftline.ledger.known_ends import WAY_OUT, KnownEnds
from driftline.ledger.run_state import RunState
from driftline.schemas.effects import (
    AskEnds,
    CaughtUp,
    DeltasLost,
    Effect,
    Finish,
    Read,
    ResumeDeltas,
    Sent,
    StopReading,
)
from driftline.schemas.records import Checkpoint, Snapshot


class ShardOwner:
    """Owns partitions: rebuilds their state, and has it written down at snapshot points.

    Args:
        name: of the server process.
        incarnation: of the server process, 16 bytes.
        state: fold of the ledger, shared with the process.
    """

    def __init__(self, name: str, incarnation: bytes, state: RunState) -> None:
        self._state = state
        self._caught_up = False
        self._waiting: set[int] = set()
        self._lost: dict[int, int] = {}
        self._ledger_asked = self._ask_again = False
        self._known_ends = KnownEnds(state)
        self.snapshots = Snapshotting(name, incarnation, state)
        self.owned: dict[int, OwnedPartition] = {}
        self.counters: Counter[str] = Counter()

    # -- ownership ---------------------------------------------------------------------------------------------------

    def on_assigned(self, partitions: Iterable[int]) -> Iterable[Effect]:
        """Own partitions; their deltas are held until the state is rebuilt that they change."""
        self._waiting |= set(partitions)
        return self._activate()

    def on_revoked(self, partitions: Iterable[int]) -> list[Effect]:
        """Forget partitions; another server refolds them."""
        gone = set(partitions)
        self._waiting -= gone
        self._lost = {partition: begin for partition, begin in self._lost.items() if partition not in gone}
        self.owned = {partition: owned for partition, owned in self.owned.items() if partition not in gone}
        self._known_ends.forget(gone)
        self.snapshots.forget(gone)
        return [StopReading(Stream.SNAPSHOTS, partition) for partition in sorted(gone)]

    def on_ledger_caught_up(self) -> Iterable[Effect]:
        """The ledger has been read to its end."""
        self._caught_up = True
        return self._activate()

    def _is_active(self) -> bool:
        return self._caught_up and self._state.has_begun

    def _activate(self) -> Iterable[Effect]:
        if not self._is_active() or not self._waiting:
            return []
        fresh, self._waiting = sorted(self._waiting), set()
        return chain.from_iterable([self._rebuild(partition) for partition in fresh])

    def _rebuild(self, partition: int) -> Iterable[Effect]:
        """Start a partition from the last checkpoint; what is held of it already is needed behind that, too."""
        before = self.owned.get(partition)
        self.snapshots.forget([partition])
        self.counters["rebuilds"] += 1
        restoring = Restoring(self._state, partition, self._state.checkpoint)
        owned = self.owned[partition] = OwnedPartition(partition, self._state.layout, restoring)
        if before is not None:
            owned.held, owned.position = before.held, before.position
        if restoring.missing:
            return [Read(Stream.SNAPSHOTS, partition, restoring.begin)]
        return self._loaded(owned)  # no shard lives here

    def _on_checkpoint(self, checkpoint: Checkpoint) -> Iterator[Effect]:
        """Go on from a checkpoint where we are behind it: what it makes needless may be deleted at any time."""
        for partition in [one.partition for one in self.owned.values() if one.version < checkpoint.version]:
            yield from self._rebuild(partition)
        yield from self._go_on_without()
        current = [owned.partition for owned in self.owned.values() if owned.is_loaded]
        yield from self.snapshots.on_checkpoint(checkpoint, current)
        self._state.forget_before(checkpoint.version)

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def on_snapshot(self, snapshot: Snapshot, value: bytes, partition: int) -> Iterable[Effect]:
        """A snapshot was read: keep it if a partition is rebuilt from it."""
        owned = self.owned.get(partition)
        if owned is None or owned.restoring is None or not owned.restoring.take(snapshot, value):
            return []
        if owned.restoring.missing:
            return []
        return chain([StopReading(Stream.SNAPSHOTS, partition)], self._loaded(owned))

    def _loaded(self, owned: OwnedPartition) -> Iterable[Effect]:
        """Take over a state that was rebuilt, and have the deltas handed out that change it."""
        restored = owned.load()
        begin = max(restored.deltas_from, owned.position)
        resume = ResumeDeltas((owned.partition,), (begin,) if begin > 0 else ())
        return [resume]

    def on_snapshots_caught_up(self, reached: CaughtUp) -> list[Effect]:
        """They must have been found by now, unless a checkpoint that we have yet to read has replaced them."""
        owned = self.owned.get(reached.partition)
        if owned is None or owned.restoring is None:
            return []
        owned.restoring.read_to_end = True
        return self._ask_ledger()

    def _missing_snapshots(self) -> str:
        """Say which snapshots are not where the ledger says, of partitions that have been searched to their end."""
        for owned in self.owned.values():
            if owned.restoring is not None and owned.restoring.read_to_end:
                shard, tensor = owned.restoring.missing[0]
                return (
                    f"version {owned.version} cannot be rebuilt: {tensor} of shard {shard} is not in "
                    f"{self._topic(Stream.SNAPSHOTS)} partition {owned.partition}; {WAY_OUT}"
                )
        return ""

    def on_sent(self, sent: Sent) -> list[Effect]:
        """A snapshot is durable."""
        return self.snapshots.on_sent(sent)

    # -- what is missing ---------------------------------------------------------------------------------------------

    def on_deltas_lost(self, lost: DeltasLost) -> list[Effect]:
        """Deltas were deleted before we read them: well if a checkpoint makes them needless.

        That checkpoint may be further on in the ledger than we have read; only its end shows that there is none.
        """
        if lost.partition not in self.owned:
            return []
        self._lost[lost.partition] = lost.begin
        return self._go_on_without() or self._ask_ledger()

    def on_deltas_caught_up(self, reached: CaughtUp) -> list[Effect]:
        """The deltas of a partition were read to their end, which must be behind all that the ledger knows."""
        return (
            self._known_ends.on_read_to_end(reached.partition, reached.offset)
            if reached.partition in self.owned
            else []
        )

    def on_deltas_end(self, ends: Mapping[int, int]) -> list[Effect]:
        """Where the deltas ended after we asked; empty if Kafka did not answer."""
        return self._known_ends.on_ends(ends)

    def _go_on_without(self) -> list[Effect]:
        """Rebuild the partitions whose lost deltas a checkpoint makes needless."""
        found = [partition for partition, begin in self._lost.items() if self._floor(partition) >= begin]
        for partition in found:
            del self._lost[partition]
        return [effect for partition in found for effect in self._rebuild(partition)]

    def _floor(self, partition: int) -> int:
        checkpoint = self._state.checkpoint
        return 0 if checkpoint is None else checkpoint.floors[partition]

    def look_again(self) -> list[Effect]:
        """Ask once more while something is missing; called once a tick interval."""
        is_due = not self._ledger_asked and (self._lost or self._missing_snapshots())
        return self._ask_ledger() if is_due else []

    def _ask_ledger(self) -> list[Effect]:
        """Ask where the ledger ends; one question at a time."""
        self._ask_again = self._ledger_asked
        if self._ledger_asked:
            return []
        self._ledger_asked = True
        return [AskEnds(Stream.LEDGER)]

    def on_ledger_end(self, end: int | None) -> list[Effect]:
        """Where the ledger ended after something was found to be missing; None if Kafka did not answer."""
        self._ledger_asked = False
        if self._ask_again:
            return self._ask_ledger()  # what was found since may be younger than this answer
        missing = self._missing_snapshots()
        if not self._lost and not missing:
            return []
        if end is None or self._state.next_offset < end:
            return []  # `look_again` asks once more, when there was time to read on
        if missing:
            return [Finish("snapshots are missing", missing)]
        partition, begin = min(self._lost.items())
        failure = (
            f"{self._topic(Stream.DELTAS)} partition {partition} begins at offset {begin}, and those from "
            f"{self._floor(partition)} on are needed: something else than this run deletes its records; {WAY_OUT}"
        )
        return [Finish("deltas are missing", failure)]

    def _topic(self, stream: Stream) -> str:
        return topic_name(self._state.config.name, stream)
