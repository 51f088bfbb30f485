"""The ledger as a story: the fold of a run, and what became of each record on the way."""

from collections import deque
from dataclasses import dataclass

from driftline.broker.port import Record
from driftline.errors import IntegrityError, Undecodable
from driftline.ledger.run_state import Folded, RunState
from driftline.schemas.codec import decode
from driftline.schemas.records import AnyRecord, GroupId, LedgerRecord, Membership, TermStart, Version

COUNTS = "counts"
"""Fate of a record that is part of the run."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of the ledger.

    Attributes:
        record: as decoded; None if it cannot be.
        fate: `COUNTS`, or why it does not count.
        head: the ledger's hash behind it.
        term: the term behind it.
        version: the newest version behind it.
    """

    offset: int
    timestamp_ms: int
    record: AnyRecord | None
    fate: str
    head: bytes
    term: int
    version: int

    @property
    def counts(self) -> bool:
        """Whether it is part of the run."""
        return self.fate == COUNTS


class Story:
    """Folds a ledger and remembers its records.

    Args:
        keep: how many entries to remember, the newest; None for all.

    Attributes:
        state: the fold, as far as the ledger does not contradict itself.
        entries: the records, oldest first.
        names: of the workers of all groups that there ever were.
        version_offsets: version → offset of the record that made it.
        contradiction: why the fold ended early; empty if it did not.
    """

    def __init__(self, keep: int | None = None) -> None:
        self.state = RunState()
        self.entries: deque[Entry] = deque(maxlen=keep)
        self.names: dict[GroupId, str] = {}
        self.version_offsets: dict[int, int] = {}
        self.contradiction = ""

    def read(self, found: Record) -> Entry:
        """Take the next record. A contradiction ends the fold, not the story."""
        fate, record = self._fate(found)
        state = self.state
        entry = Entry(found.offset, found.timestamp_ms, record, fate, state.chain.head, state.chain.term, state.version)
        self.entries.append(entry)
        return entry

    def _fate(self, found: Record) -> tuple[str, AnyRecord | None]:
        try:
            record = decode(found.value)
        except Undecodable as error:
            if not self.contradiction:
                self.state.read(found.offset, found.value)
            return f"is no record: {error}", None
        if self.contradiction:
            return "is not read: the ledger contradicts itself before it", record
        head, term = self.state.chain.head, self.state.chain.term
        try:
            folded = self.state.read(found.offset, found.value)
        except IntegrityError as error:
            self.contradiction = str(error)
            return f"contradicts the ledger: {error}", record
        if folded.record is None:
            return _why_void(record, head, term), record
        self._remember(folded)
        return COUNTS, record

    def _remember(self, folded: Folded) -> None:
        match folded.record:
            case Membership() as record:
                for index, join in enumerate(record.joins):
                    self.names[GroupId(folded.offset, index)] = join.worker
            case Version() as record:
                self.version_offsets[record.version] = folded.offset
            case _:
                pass

    def name(self, group: GroupId) -> str:
        """Return whose group it is."""
        return self.names.get(group, f"group {group}")


def _why_void(record: AnyRecord, head: bytes, term: int) -> str:
    if not isinstance(record, LedgerRecord):
        return "does not belong into the ledger"
    if isinstance(record, TermStart):
        return f"does not count: term {record.term} does not follow term {term}"
    if record.term != term:
        return f"does not count: it is of term {record.term}, and the term is {term}"
    return f"does not count: its parent {record.parent.hex()[:16]} is not the head {head.hex()[:16]}"
