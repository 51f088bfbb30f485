"""The published parameters of one partition as a proof: what is still there is what the fold of the log gives."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from driftline.broker.topics import Stream
from driftline.consumers.server.partition import OwnedPartition
from driftline.errors import Undecodable
from driftline.replay.verify.findings import INTEGRITY, Finding, Findings
from driftline.replay.verify.ledger import LedgerProof
from driftline.schemas.codec import decode
from driftline.schemas.digests import HASH_BYTES, verify_digest
from driftline.schemas.model.layout import Layout
from driftline.schemas.model.tensors import FP32_BYTES, encode_fp32
from driftline.schemas.records import Parameters, PayloadBytes

FoundRecord = tuple[int, bytes | None]
"""Offset and value of a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A sound record of parameters that the recomputation contradicts. ``segment`` is None if only moments differ."""

    version: int
    shard: int
    offset: int
    segment: str | None
    expected: str
    found: str


class ShardDigests:
    """Digests of the recomputed shards of one partition, a publish point: 64 bytes a shard."""

    def __init__(self, owned: OwnedPartition) -> None:
        self._owned = owned
        self._slot_of = {shard: slot for slot, shard in enumerate(sorted(owned.wanted))}
        self._of_version: dict[int, bytes] = {}

    def compute(self) -> None:
        """Remember those of the present version."""
        digests = (self._owned.shards[shard].digests() for shard in self._slot_of)
        self._of_version[self._owned.version] = b"".join(state + masters for state, masters in digests)

    def get(self, version: int, shard: int) -> tuple[bytes, bytes] | None:
        """Return the digests of state and masters, or None if that version was not recomputed."""
        found = self._of_version.get(version)
        if found is None:
            return None
        at = 2 * HASH_BYTES * self._slot_of[shard]
        return found[at : at + HASH_BYTES], found[at + HASH_BYTES : at + 2 * HASH_BYTES]


class PublishedProof:
    """Compares records with the fold while it passes their version, so that nothing of it has to be kept.

    Args:
        ledger: read to its end.
        owned: the fold of this partition.
        digests: of the versions that the fold has passed.
        records: of the partition, in order; read as far as the fold has come.
    """

    def __init__(
        self, ledger: LedgerProof, owned: OwnedPartition, digests: ShardDigests, records: Iterator[FoundRecord]
    ) -> None:
        self.findings = Findings()
        self.counts: Counter[str] = Counter()
        self.differences: list[Difference] = []
        self._ledger = ledger
        self._owned = owned
        self._digests = digests
        self._broken: dict[tuple[int, int], int] = {}
        self._seen: set[tuple[int, int]] = set()
        self._sound = self._sound_records(records)
        self._waiting = next(self._sound, None)

    def compare(self) -> None:
        """Compare everything up to the version at which the fold stands."""
        while self._waiting is not None and self._waiting[1].version <= self._owned.version:
            self._compare(*self._waiting)
            self._waiting = next(self._sound, None)

    def end(self) -> None:
        """The fold has come to its end: compare what is left."""
        while self._waiting is not None:
            self._compare(*self._waiting)
            self._waiting = next(self._sound, None)
        for (version, shard), offset in self._broken.items():
            if (version, shard) not in self._seen:
                problem = "published parameters are not what their digest says, and there is no other copy"
                self._bad(version, shard, offset, problem, "the record as its server sent it", "another digest")

    # -- soundness ---------------------------------------------------------------------------------------------------

    def _sound_records(self, records: Iterator[FoundRecord]) -> Iterator[tuple[int, Parameters]]:
        for offset, value in records:
            self.counts["bytes"] += len(value or b"")
            try:
                record = decode(value)
            except Undecodable:
                record = None
            if not isinstance(record, Parameters) or value is None:
                self.counts["undecodable"] += 1
            elif self._is_sound(offset, record, value):
                yield offset, record

    def _is_sound(self, offset: int, record: Parameters, value: bytes) -> bool:
        state = self._ledger.state
        head = state.heads.get(record.version)
        if not verify_digest(state.start.run, value, record):
            self.counts["unsound"] += 1
            # Ours, for another run's records name heads that this ledger does not have.
            if record.head == head and record.shard in self._owned.wanted:
                self._broken.setdefault((record.version, record.shard), offset)
            return False
        if record.head != head:
            expected = f"at most version {state.version}" if head is None else f"head {head.hex()}"
            problem = "a server has published a version of another ledger: this one was changed or cut"
            self._bad(
                record.version,
                record.shard,
                offset,
                problem,
                expected,
                f"version {record.version} with head {record.head.hex()}",
            )
            return False
        if not self._is_in_place(state.layout, record):
            problem = "the record does not fit its place"
            self._bad(
                record.version,
                record.shard,
                offset,
                problem,
                "a published shard of this partition, whole",
                f"shard {record.shard}",
            )
            return False
        return True

    def _is_in_place(self, layout: Layout, record: Parameters) -> bool:
        if record.shard not in self._owned.wanted or record.version not in self._ledger.publish_points:
            return False
        begin, stop = layout.shard_range(record.shard)
        return len(record.payload) == (stop - begin) * FP32_BYTES

    # -- comparing ---------------------------------------------------------------------------------------------------

    def _compare(self, offset: int, record: Parameters) -> None:
        self._seen.add((record.version, record.shard))
        digests = self._digests.get(record.version, record.shard)
        if digests is None:
            self.counts["not_recomputed"] += 1
            return
        state, masters = digests
        if record.version == self._owned.version:
            same = self._first_other_byte(record) is None
        else:  # the fold has moved on; a server that took over may publish late
            same = hashlib.sha256(np.frombuffer(record.payload, np.uint8).data).digest() == masters
        if same and record.state_digest == state:
            self.counts["equal"] += 1
            return
        self.counts["different"] += 1
        self._differs(offset, record, state, masters_are_equal=same)

    def _first_other_byte(self, record: Parameters) -> int | None:
        ours = encode_fp32(self._owned.shards[record.shard].masters)
        theirs = np.frombuffer(record.payload, np.uint8)
        return None if np.array_equal(ours, theirs) else int(np.flatnonzero(ours != theirs)[0])

    def _differs(self, offset: int, record: Parameters, state: bytes, *, masters_are_equal: bool) -> None:
        """Keep the differences of the lowest version: those of later ones follow from them."""
        lowest = self.differences[0].version if self.differences else record.version
        if record.version > lowest:
            return
        if record.version < lowest:
            self.differences.clear()
        segment = None
        expected, found = f"a state with digest {state.hex()}", record.state_digest.hex()
        if not masters_are_equal and record.version == self._owned.version:
            segment, expected, found = self._first_other_element(record)
        elif not masters_are_equal:
            expected, found = "the recomputed parameters", "others"
        self.differences.append(
            Difference(
                version=record.version,
                shard=record.shard,
                offset=offset,
                segment=segment,
                expected=expected,
                found=found,
            )
        )

    def _first_other_element(self, record: Parameters) -> tuple[str, str, str]:
        layout = self._ledger.state.layout
        at = self._first_other_byte(record)
        if at is None:
            raise AssertionError("called for a difference")
        element = at // FP32_BYTES
        piece = next(one for one in layout.pieces(record.shard) if one.start <= element < one.stop)
        segment = layout.segments[piece.segment_index]
        place = layout.shard_range(record.shard)[0] + element - segment.offset
        ours = encode_fp32(self._owned.shards[record.shard].masters)
        unit = "element" if segment.words == segment.elements else "word"
        expected = f"{unit} {place} = {_shown(ours, element)}"
        return segment.name, expected, _shown(record.payload, element)

    def _bad(self, version: int, shard: int, offset: int, problem: str, expected: str, found: str) -> None:
        self.findings.add(
            Finding(
                verdict=INTEGRITY,
                problem=problem,
                stream=Stream.PARAMETERS,
                partition=self._owned.partition,
                offset=offset,
                version=version,
                shard=shard,
                expected=expected,
                found=found,
            )
        )


def _shown(payload: PayloadBytes, element: int) -> str:
    """Show a number and its bits: different NaNs, and zeros of different signs, look alike."""
    raw = bytes(payload[FP32_BYTES * element : FP32_BYTES * (element + 1)])
    return f"{np.frombuffer(raw, '<f4')[0]!s} (bits {int.from_bytes(raw, 'little'):08x})"
