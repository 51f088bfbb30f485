"""One partition of a run, recomputed and compared on the way. Partitions need nothing of each other."""

from collections.abc import Iterable, Iterator

from driftline.broker.topics import Stream
from driftline.consumers.server.partition import OwnedPartition
from driftline.consumers.server.snapshots import Restoring, digest_in_key, snapshots_of
from driftline.errors import NonFiniteState, Undecodable
from driftline.replay.verify.deltas import DeltasProof
from driftline.replay.verify.findings import INTEGRITY, NUMERIC, Finding, Findings
from driftline.replay.verify.ledger import LedgerProof
from driftline.replay.verify.published import FoundRecord, PublishedProof, ShardDigests
from driftline.schemas.codec import decode
from driftline.schemas.records import Snapshot, Version


class PartitionProof:
    """Folds one partition. One thread at a time may use it; the ledger's proof, which they share, stays as it is.

    Attributes:
        findings: of this partition.
        failure: the version that leaves the finite numbers, and why; None if none does.

    Args:
        ledger: read to its end, of a run that can be folded.
        partition: which one.
    """

    def __init__(self, ledger: LedgerProof, partition: int) -> None:
        state = ledger.state
        self.owned = OwnedPartition(partition, state.layout, Restoring(state, partition, ledger.begins_with))
        self.deltas = DeltasProof(ledger, self.owned)
        self.digests = ShardDigests(self.owned)
        self.published: PublishedProof | None = None
        self.findings = Findings()
        self.failure: tuple[int, str] | None = None
        self.bytes = 0
        self._ledger = ledger
        self._compared = ledger.publish_points | {one.digest.version for one in ledger.recorded}

    @property
    def version(self) -> int:
        """The last version that was recomputed; -1 before version 0."""
        return self.owned.version if self.owned.is_loaded else -1

    def prove(
        self, snapshots: Iterable[FoundRecord], deltas: Iterable[FoundRecord], parameters: Iterator[FoundRecord]
    ) -> None:
        """Read the partition's three streams, each from its beginning to its present end.

        Args:
            snapshots: read until version 0 is complete.
            deltas: read to the end.
            parameters: read alongside, as far as the fold has come.
        """
        self._load(snapshots)
        self.published = PublishedProof(self._ledger, self.owned, self.digests, parameters)
        if self.owned.is_loaded:
            self._arrived()
            self._advance()
        for offset, value in deltas:
            self.bytes += len(value or b"")
            self.deltas.take(offset, value)
            self._advance()
        self.published.end()
        can_go_on = self.owned.is_loaded and self.failure is None
        self.deltas.end(self._next_version() if can_go_on else None)
        self.findings.merge((self.deltas.findings, self.published.findings))

    # -- version 0 ---------------------------------------------------------------------------------------------------

    def _load(self, snapshots: Iterable[FoundRecord]) -> None:
        broken: dict[tuple[int, str], int] = {}
        restoring = self.owned.restoring
        for offset, value in snapshots if restoring is not None and restoring.missing else ():
            self.bytes += len(value or b"")
            self._snapshot(offset, value, broken)
            if restoring is None or not restoring.missing:
                break
        if restoring is not None and restoring.missing:
            shard, tensor = restoring.missing[0]
            self._missing_snapshot(restoring, shard, tensor, broken.get((shard, tensor)))
        else:
            self.owned.load()

    def _snapshot(self, offset: int, value: bytes | None, broken: dict[tuple[int, str], int]) -> None:
        restoring = self.owned.restoring
        if restoring is None or value is None:
            return
        try:
            snapshot = decode(value)
            if isinstance(snapshot, Snapshot) and restoring.names(snapshot):
                broken.setdefault((snapshot.shard, snapshot.tensor), offset)
                restoring.take(snapshot, value)
        except Undecodable:
            return

    def _missing_snapshot(self, restoring: Restoring, shard: int, tensor: str, offset: int | None) -> None:
        self.findings.add(
            Finding(
                verdict=INTEGRITY,
                problem=f"version {restoring.version} of a shard cannot be read: its {tensor} is missing",
                stream=Stream.SNAPSHOTS,
                partition=self.owned.partition,
                offset=offset,
                version=restoring.version,
                shard=shard,
                expected=f"a snapshot with digest {restoring.digest(shard, tensor).hex()}",
                found="none" if offset is None else "a record that says so and is another",
            )
        )

    def _check_snapshots(self) -> None:
        """Hold the snapshots that a checkpoint names against the state that they are of."""
        start, (offset, checkpoint) = self._ledger.state.start, self._ledger.checkpoints[self.owned.version]
        named = {(place.shard, place.tensor): place.digest for place in checkpoint.places}
        head = self._ledger.state.heads[self.owned.version]
        for index, shard in self.owned.shards.items():
            for record, key, _ in snapshots_of(start, shard, index, head):
                expected, found = digest_in_key(key), named[index, record.tensor]
                if expected != found:
                    self._wrong_snapshot(offset, index, record.tensor, expected, found)

    def _wrong_snapshot(self, offset: int, shard: int, tensor: str, expected: bytes, found: bytes) -> None:
        self.findings.add(
            Finding(
                verdict=NUMERIC,
                problem=f"a checkpoint names a snapshot of {tensor} that is not the recomputed state",
                stream=Stream.LEDGER,
                partition=0,
                offset=offset,
                version=self.owned.version,
                shard=shard,
                expected=f"a snapshot with digest {expected.hex()}",
                found=f"one with digest {found.hex()}",
            )
        )

    # -- versions ----------------------------------------------------------------------------------------------------

    def _next_version(self) -> Version | None:
        """Return the record of the version behind the present one, if the ledger has it."""
        version = self.owned.version + 1
        return self._ledger.state.versions.get(version) if version <= self._ledger.state.version else None

    def _advance(self) -> None:
        """Apply every version whose deltas are here."""
        while self.failure is None and self.owned.is_loaded:
            record = self._next_version()
            if record is None or not self.owned.holds_all_of(record):
                return
            try:
                self.owned.apply(record)
            except NonFiniteState as error:
                self.failure = (record.version, str(error))
            else:
                self._arrived()

    def _arrived(self) -> None:
        """The fold stands at another version: compare it."""
        if self.owned.version in self._compared:
            self.digests.compute()
        if self.owned.version in self._ledger.checkpoints:
            self._check_snapshots()
        if self.published is not None:
            self.published.compare()
