"""The ledger as a proof: which records count, whether they can be the ones that were written, what they recorded.

The chain makes a changed record show in the one behind it, which then builds on a head that the ledger never had and is
void. Void records are also what replaced coordinators leave behind, so not every one of them is a sign of a change. An
honest process never builds on a record that is void, nor on a head that the ledger has only later: each is a finding.
One record (or the start of a term) alone that builds on a head which the ledger never has may come from any client: it
is a finding only if no process with the same ledger writes after it.
"""

from dataclasses import dataclass

from driftline.broker.topics import Stream
from driftline.consumers.server.partition import Clock
from driftline.errors import IntegrityError, Undecodable
from driftline.ledger.run_state import Folded, RunState
from driftline.replay.verify.findings import INTEGRITY, Finding, Findings
from driftline.schemas.codec import decode
from driftline.schemas.digests import next_head
from driftline.schemas.records import (
    NO_HASH,
    Checkpoint,
    LedgerRecord,
    Publish,
    RunEnd,
    StateDigest,
    TermStart,
    Version,
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A digest of a state, and the ledger offset of the record that holds it."""

    offset: int
    digest: StateDigest


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """Where the ledger passes through an expected head."""

    head: str
    offset: int
    record: str
    term: int
    version: int


@dataclass(frozen=True, slots=True)
class _Break:
    """A record that builds on a head which the ledger does not have, and what stands where that head should be."""

    offset: int
    parent: bytes
    culprit: int
    version: int
    head: bytes


class LedgerProof:
    """Fold of the ledger that looks at what readers skip.

    Args:
        expect: the first hex digits of a head that the ledger must pass through; empty for none.
    """

    def __init__(self, expect: str = "") -> None:
        self.state = RunState()
        self.findings = Findings()
        self.recorded: list[Recorded] = []
        self.checkpoints: dict[int, tuple[int, Checkpoint]] = {}
        self.skips: set[Clock] = set()
        self.passed: Passed | None = None
        self.bytes = 0
        self.unread = 0
        self._expect = expect.lower()
        self._stopped = False
        self._offsets_of_heads: dict[bytes, int] = {NO_HASH: -1}
        self._void_heads: dict[bytes, _Break] = {}
        self._early: dict[bytes, int] = {}
        self._loose: _Break | None = None
        self._broken = False
        self._culprit = 0

    # -- reading -----------------------------------------------------------------------------------------------------

    def read(self, offset: int, value: bytes | None) -> None:
        """Take the next record."""
        self.bytes += len(value or b"")
        if self._stopped:
            self.unread += 1
            return
        if self.state.next_offset == 0 and offset > 0:
            self._broken = True
            self._bad(offset, 0, "the ledger does not begin with its first record", "offset 0", f"offset {offset}")
        head, undecodable = self.state.chain.head, self.state.totals.undecodable
        try:
            folded = self.state.read(offset, value)
        except IntegrityError as error:
            self._stopped = True
            expected = "a record that follows from those before it"
            self._bad(offset, self.state.version, "the ledger contradicts itself", expected, str(error))
            return
        if folded.record is not None:
            self._valid(folded, folded.record, head)
        elif self.state.totals.undecodable == undecodable:
            self._void(offset, value or b"")
        else:
            self._culprit = offset

    def end(self) -> None:
        """The present end has been read."""
        if self._loose is not None and self.state.ended is None:
            self._break(self._loose)
        if self._expect and self.passed is None:
            end, head = self.state.next_offset, self.state.chain.head.hex()
            found = f"the head {head} after its last record, and another one after every record before that"
            problem = "the ledger does not pass through the expected head"
            self._bad(end, self.state.version, problem, f"a head {self._expect}", found)

    # -- valid records -----------------------------------------------------------------------------------------------

    def _valid(self, folded: Folded, record: LedgerRecord, before: bytes) -> None:
        state, offset = self.state, folded.offset
        if isinstance(record, TermStart):
            self._term_start(offset, record, before)
        else:
            self._loose = None  # its term went on
        self._check_early(offset)
        self._offsets_of_heads[state.chain.head] = self._culprit = offset
        head = state.chain.head.hex()
        if self._expect and self.passed is None and head.startswith(self._expect):
            kind = type(record).__name__
            self.passed = Passed(head=head, offset=offset, record=kind, term=state.chain.term, version=state.version)
        match record:
            case Version():
                self._version(offset, record)
            case Publish() | RunEnd():
                self._record(offset, record.states)
            case Checkpoint():
                self.checkpoints[record.version] = offset, record
            case _:
                pass

    def _term_start(self, offset: int, record: TermStart, before: bytes) -> None:
        if record.parent == before:
            self._loose = None  # its coordinator has read the same ledger
        elif record.parent not in self._offsets_of_heads and self._loose is None:
            self._loose = _Break(offset, record.parent, self._culprit, self.state.version, before)

    def _version(self, offset: int, record: Version) -> None:
        self.skips.update((use.group, use.clock) for use in record.uses if use.kind != "delta")
        self._record(offset, record.states)

    def _record(self, offset: int, states: tuple[StateDigest, ...]) -> None:
        for digest in states:
            if not 0 <= digest.version <= self.state.version:
                expected = f"a version up to {self.state.version}"
                problem = "a digest is recorded of a version that does not exist yet"
                self._bad(offset, self.state.version, problem, expected, str(digest.version))
            else:
                self.recorded.append(Recorded(offset, digest))

    # -- void records ------------------------------------------------------------------------------------------------

    def _void(self, offset: int, value: bytes) -> None:
        try:
            record = decode(value)
        except Undecodable:
            raise AssertionError("the fold has decoded it") from None
        if not isinstance(record, LedgerRecord) or isinstance(record, TermStart):
            return
        known = record.parent in self._offsets_of_heads
        first = None if known else self._void_heads.get(record.parent)
        state = self.state
        mine = first or _Break(offset, record.parent, self._culprit, state.version, state.chain.head)
        self._void_heads[next_head(record.parent, value)] = mine
        if first is not None:
            # A head that was there says exactly what came in between; else the first doubt is nearest to the cause.
            self._break(first if first.parent in self._offsets_of_heads else self._loose or first)
        elif not known:
            self._early.setdefault(record.parent, offset)
            if record.term >= state.chain.term and self._loose is None:
                self._loose = mine

    def _check_early(self, offset: int) -> None:
        early = self._early.get(self.state.chain.head)
        if early is not None and not self._broken:
            self._broken = True
            problem = f"the record builds on the one at offset {offset}, which comes after it: their order was changed"
            head = self.state.chain.head.hex()
            self._bad(early, self.state.version, problem, f"head {head} before it", f"head {head} after it")

    def _break(self, found: _Break) -> None:
        if self._broken:
            return  # whatever is wrong later follows from it
        self._broken = True
        self._bad(
            found.culprit,
            found.version,
            f"the records from offset {found.offset} on build on something else than what stands here: it was "
            "changed, or a record was put in or taken out after it",
            f"head {found.parent.hex()}",
            f"head {found.head.hex()}",
        )

    def _bad(self, offset: int, version: int, problem: str, expected: str, found: str) -> None:
        self.findings.add(
            Finding(
                verdict=INTEGRITY,
                problem=problem,
                stream=Stream.LEDGER,
                partition=0,
                offset=offset,
                version=version,
                expected=expected,
                found=found,
            )
        )

    # -- questions ---------------------------------------------------------------------------------------------------

    @property
    def can_be_folded(self) -> bool:
        """Whether there is a run whose versions can be computed."""
        return self.state.has_begun

    @property
    def begins_with(self) -> Checkpoint | None:
        """Return what can be recomputed first: version 0 (None), or where earlier deltas are deleted a checkpoint."""
        trims = self.state.has_begun and self.state.config.trims
        return self.state.checkpoint if trims else None

    @property
    def publish_points(self) -> set[int]:
        """Versions that servers publish."""
        return self.state.publish_points if self.state.has_begun else set()

    def uses_delta_at(self, clock: Clock) -> int | None:
        """Return the version that uses the deltas of a clock, or None."""
        return None if clock in self.skips else self.settled_at(clock)

    def settled_at(self, clock: Clock) -> int | None:
        """Return the version that settles a clock, or None."""
        version = self.state.used_at.get(clock)
        # A record that contradicts itself may have been folded in part.
        return version if version is not None and version <= self.state.version else None
