"""The ledger with notes: the fold of a run, and for each record whether it counts or why it does not."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from driftline.broker.port import Broker, Record
from driftline.broker.reading import until_end
from driftline.broker.topics import Stream, topic_name
from driftline.errors import IntegrityError, Undecodable
from driftline.ledger.run_state import RunState
from driftline.schemas.codec import decode
from driftline.schemas.records import AnyRecord, GroupId, LedgerRecord, Membership, TermStart

COUNTS = "counts"
"""Note of a record that is part of the run."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One record of the ledger.

    Attributes:
        record: decoded; None if that fails.
        note: `COUNTS`, or why it does not count.
        head: the ledger's hash behind it.
        term: the term behind it.
        version: the head version behind it.
    """

    offset: int
    timestamp_ms: int
    record: AnyRecord | None
    note: str
    head: bytes
    term: int
    version: int

    @property
    def counts(self) -> bool:
        """Whether it is part of the run."""
        return self.note == COUNTS


class AnnotatedLedger:
    """Folds a ledger and remembers its records.

    Args:
        keep: how many entries to remember, the newest; None for all.

    Attributes:
        state: the fold, as far as the ledger does not contradict itself.
        entries: the records, oldest first.
        names: group → its worker's name, also of groups that were removed.
        contradiction: why the fold ended early; empty if it did not.
    """

    def __init__(self, keep: int | None = None) -> None:
        self.state = RunState()
        self.entries: deque[LedgerEntry] = deque(maxlen=keep)
        self.names: dict[GroupId, str] = {}
        self.contradiction = ""

    def read(self, found: Record) -> None:
        """Take the next record. A contradiction ends the fold; later records are remembered all the same."""
        note, record = self._fold(found)
        chain, version = self.state.chain, self.state.version
        self.entries.append(
            LedgerEntry(found.offset, found.timestamp_ms, record, note, chain.head, chain.term, version)
        )

    def _fold(self, found: Record) -> tuple[str, AnyRecord | None]:
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
        if isinstance(record, Membership):
            self.names |= {GroupId(found.offset, index): join.worker for index, join in enumerate(record.joins)}
        return COUNTS, record

    def name(self, group: GroupId) -> str:
        """Return the name of a group's worker."""
        return self.names.get(group, f"group {group}")


def read_annotated_ledger(broker: Broker, run: str, say: Callable[[str], None] | None = None) -> AnnotatedLedger:
    """Read a run's ledger up to its present end, contradictions included.

    Args:
        broker: where the run's topics are.
        run: its name.
        say: receives a line of progress every two seconds.

    Raises:
        TopicMissing: there is no such run.
        WaitTimeout: Kafka stopped answering.
    """
    ledger = AnnotatedLedger()
    for record in until_end(broker, topic_name(run, Stream.LEDGER), 0, 0, say):
        ledger.read(record)
    return ledger


def _why_void(record: AnyRecord, head: bytes, term: int) -> str:
    if not isinstance(record, LedgerRecord):
        return "does not belong into the ledger"
    if isinstance(record, TermStart):
        return f"does not count: term {record.term} does not follow term {term}"
    if record.term != term:
        return f"does not count: it is of term {record.term}, and the term is {term}"
    return f"does not count: its parent {record.parent.hex()[:16]} is not the head {head.hex()[:16]}"
