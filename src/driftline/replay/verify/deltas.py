"""The deltas of one partition as a proof: every one that a version uses is there, whole, once, and in its place."""

from array import array
from collections import Counter
from dataclasses import dataclass

from driftline.broker.topics import Stream
from driftline.consumers.server.partition import Clock, HeldDelta, OwnedPartition, check_delta, not_finite
from driftline.errors import Undecodable
from driftline.replay.verify.findings import INTEGRITY, SHOWN_ALARMS, Alarm, Finding, Findings
from driftline.replay.verify.ledger import LedgerProof
from driftline.schemas.codec import decode
from driftline.schemas.digests import HASH_BYTES
from driftline.schemas.records import Delta, Version

CLOCKS_HELD = 8
"""Clocks of a group whose deltas are held at least; more if the run lets more of them be under way."""

_NOWHERE = -1


class _Slots:
    """Digests and offsets of the deltas of one contribution in one partition: 40 bytes each, kept for the whole run."""

    __slots__ = ("_digests", "_offsets")

    def __init__(self, count: int) -> None:
        self._digests = bytearray(HASH_BYTES * count)
        self._offsets = array("q", [_NOWHERE]) * count

    def get(self, slot: int) -> tuple[bytes, int] | None:
        """Return digest and offset, or None."""
        offset = self._offsets[slot]
        return None if offset == _NOWHERE else (bytes(self._digests[HASH_BYTES * slot :][:HASH_BYTES]), offset)

    def put(self, slot: int, digest: bytes, offset: int) -> None:
        """Remember them."""
        self._digests[HASH_BYTES * slot : HASH_BYTES * (slot + 1)] = digest
        self._offsets[slot] = offset


@dataclass(frozen=True, slots=True)
class _Broken:
    """A copy of a used delta that is not sound."""

    offset: int
    reason: str


class DeltasProof:
    """Takes the deltas of a partition in order, and holds those that the next versions need.

    Args:
        ledger: read to its end.
        owned: where deltas are held until their version is applied.
    """

    def __init__(self, ledger: LedgerProof, owned: OwnedPartition) -> None:
        self.findings = Findings()
        self.counts: Counter[str] = Counter()
        self.alarms: list[Alarm] = []
        self.is_stuck = False
        self._ledger = ledger
        self._owned = owned
        self._slot_of = {shard: slot for slot, shard in enumerate(sorted(owned.wanted))}
        self._slots: dict[Clock, _Slots] = {}
        self._broken: dict[tuple[Clock, int], _Broken] = {}
        self._unreadable: _Broken | None = None
        self._begin = 0
        self._next_offset = 0
        unsettled = ledger.state.config.max_unsettled
        self._clocks_held = max(CLOCKS_HELD, unsettled)

    # -- reading -----------------------------------------------------------------------------------------------------

    def take(self, offset: int, value: bytes | None) -> None:
        """Take the next record; afterwards the partition may be able to apply a version."""
        if self._next_offset == 0:
            self._begin = offset
        self._next_offset = offset + 1
        try:
            delta = decode(value)
        except Undecodable as error:
            self._undecodable(offset, str(error))
            return
        if isinstance(delta, Delta):
            self._decoded(delta, offset, value or b"")
        else:
            self._undecodable(offset, f"a {type(delta).__name__}, not a delta")

    def _undecodable(self, offset: int, reason: str) -> None:
        self.counts["undecodable"] += 1
        self._unreadable = self._unreadable or _Broken(offset, reason)

    def _decoded(self, delta: Delta, offset: int, value: bytes) -> None:
        clock = (delta.group, delta.clock)
        used_at = self._ledger.uses_delta_at(clock)
        try:
            sound = self._sound(delta, value, offset, is_used=used_at is not None)
        except Undecodable as error:
            self.counts["unsound"] += 1
            if used_at is None:
                self._unreadable = self._unreadable or _Broken(offset, str(error))
            elif delta.shard in self._slot_of:
                self._broken.setdefault((clock, delta.shard), _Broken(offset, str(error)))
            return
        if used_at is None:
            self.counts["unused"] += 1
        else:
            self._used(clock, used_at, delta, sound)

    def _sound(self, delta: Delta, value: bytes, offset: int, *, is_used: bool) -> HeldDelta:
        state = self._ledger.state
        sound = check_delta(state.start.run, state.layout, self._owned.partition, delta, value, offset)
        if is_used and (reason := not_finite(state.layout, sound)):
            raise Undecodable(reason)  # no server would have given a receipt for it
        return sound

    def _used(self, clock: Clock, used_at: int, delta: Delta, sound: HeldDelta) -> None:
        offset = sound.receipt.offset
        slots = self._slots.get(clock)
        if slots is None:
            slots = self._slots[clock] = _Slots(len(self._slot_of))
        known = slots.get(self._slot_of[delta.shard])
        if known is not None:
            self._again(clock, delta, offset, known)
            return
        self.counts["used"] += 1
        slots.put(self._slot_of[delta.shard], delta.digest, offset)
        self._check_position(clock, delta.shard, offset)
        self._check_progress(clock)
        if used_at > self._owned.version and not self.is_stuck:
            self._owned.held.setdefault(clock, {})[delta.shard] = sound

    def _again(self, clock: Clock, delta: Delta, offset: int, known: tuple[bytes, int]) -> None:
        digest, first_offset = known
        if digest == delta.digest:
            self.counts["duplicates"] += 1
            return
        self.counts["conflicting"] += 1
        if len(self.alarms) < SHOWN_ALARMS:
            self.alarms.append(
                Alarm(
                    partition=self._owned.partition,
                    offset=offset,
                    first_offset=first_offset,
                    group=str(clock[0]),
                    clock=clock[1],
                    shard=delta.shard,
                )
            )

    # -- order -------------------------------------------------------------------------------------------------------

    def _check_position(self, clock: Clock, shard: int, offset: int) -> None:
        """A version knows the offset behind all that it uses: nothing that counts stands behind it."""
        version = self._ledger.state.used_at[clock]
        limit = self._ledger.state.versions[version].positions[self._owned.partition]
        if offset >= limit:
            problem = "a delta comes after the position that its version records, so it was moved or put in"
            self._bad(clock, version, shard, offset, problem, f"an offset below {limit}", f"offset {offset}")

    def _check_progress(self, clock: Clock) -> None:
        """Hold no more once a delta is overdue: a worker starts a clock when the earlier ones are settled.

        So the deltas of their versions stand before it, in every partition. Without this rule a single missing delta
        would have all that come after it held.
        """
        group, number = clock
        if self.is_stuck:
            return
        for earlier in range(number - self._clocks_held, max(0, number - 2 * self._clocks_held), -1):
            settled = self._ledger.settled_at((group, earlier))
            if settled is not None:
                self.is_stuck = settled > self._owned.version
                break
        if self.is_stuck:
            self._owned.held.clear()

    # -- the end -----------------------------------------------------------------------------------------------------

    def end(self, record: Version | None) -> None:
        """All deltas have been read, and ``record`` is the first version that could not be applied for want of them."""
        if record is None:
            return
        for use in record.uses:
            for shard in sorted(self._owned.wanted) if use.kind == "delta" else ():
                if (use.group, use.clock) not in self._slots or self.place((use.group, use.clock), shard) is None:
                    self._missing((use.group, use.clock), record.version, shard)
                    return
        self._late(record)

    def _missing(self, clock: Clock, version: int, shard: int) -> None:
        broken = self._broken.get((clock, shard))
        problem = "the only copy of a delta that a version uses is not sound"
        found = "" if broken is None else broken.reason
        if broken is None:
            problem = "a delta that a version uses is missing"
            found = f"none from offset {self._begin} up to {self._next_offset}"
            if self._unreadable is not None:
                found += f"; the first record that is no sound delta, at {self._unreadable.offset}: "
                found += self._unreadable.reason
        offset = None if broken is None else broken.offset
        self._bad(clock, version, shard, offset, problem, "the delta as its worker sent it", found)

    def _late(self, record: Version) -> None:
        """Every delta is there, but one of them only behind deltas that were made after its version."""
        clocks = [(use.group, use.clock) for use in record.uses if use.kind == "delta"]
        places = [(place[1], clock, shard) for clock in clocks for shard in self._slot_of
                  if (place := self.place(clock, shard)) is not None]  # fmt: skip
        offset, clock, shard = max(places, default=(None, clocks[0], 0))
        problem = "a delta comes after others that were computed after its version, so it was moved"
        self._bad(clock, record.version, shard, offset, problem, "an earlier offset", f"offset {offset}")

    # -- questions ---------------------------------------------------------------------------------------------------

    def place(self, clock: Clock, shard: int) -> tuple[bytes, int] | None:
        """Return digest and offset of the copy that counts, or None."""
        slots = self._slots.get(clock)
        return None if slots is None else slots.get(self._slot_of[shard])

    def _bad(
        self, clock: Clock, version: int, shard: int, offset: int | None, problem: str, expected: str, found: str
    ) -> None:
        self.findings.add(
            Finding(
                verdict=INTEGRITY,
                problem=problem,
                stream=Stream.DELTAS,
                partition=self._owned.partition,
                offset=offset,
                version=version,
                shard=shard,
                group=str(clock[0]),
                clock=clock[1],
                expected=expected,
                found=found,
            )
        )
