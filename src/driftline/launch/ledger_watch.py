"""Where a ledger stands: its newest version, and who reigns. No fold of the run, so it costs next to nothing."""

from driftline.broker.port import Broker, Record
from driftline.broker.topics import Stream, topic_name
from driftline.errors import Undecodable
from driftline.ledger.chain import Chain
from driftline.schemas.codec import decode
from driftline.schemas.records import LedgerRecord, Membership, RunEnd, RunStart, TermStart, Version


class LedgerHead:
    """What the valid records of a ledger say last.

    Attributes:
        version: the newest; -1 before the start of the run.
        coordinator: name of the server that reigns; empty before the first.
        run: UUID of the run; empty before its start.
        members: worker → incarnation of those that are in the run.
        ended: whether the run is over.
    """

    def __init__(self) -> None:
        self.version = -1
        self.coordinator = ""
        self.run = b""
        self.members: dict[str, bytes] = {}
        self.ended = False
        self._chain = Chain()

    def read(self, value: bytes | None) -> bool:
        """Take one record, in order; return whether it is one that this looks at."""
        try:
            record = decode(value)
        except Undecodable:
            return False
        if value is None or not isinstance(record, LedgerRecord) or not self._chain.accept(record, value):
            return False
        match record:
            case TermStart():
                self.coordinator = record.coordinator
            case RunStart():
                self.run, self.version = record.run, max(self.version, 0)
            case Membership():
                for one in record.removals:
                    self.members.pop(one.worker, None)
                self.members |= {one.worker: one.incarnation for one in record.joins}
            case Version():
                self.version = record.version
            case RunEnd():
                self.ended = True
            case _:
                return False
        return True


class LedgerWatch:
    """Follows the ledger of a run whose topics exist. Used by one thread.

    Raises:
        TopicMissing: they do not.
    """

    def __init__(self, broker: Broker, run: str) -> None:
        self.head = LedgerHead()
        self._reader = broker.reader()
        self._reader.read(topic_name(run, Stream.LEDGER), 0, 0)

    def look(self, timeout_s: float) -> bool:
        """Wait for the next record; return whether it moved the head.

        Raises:
            BrokerError: the ledger cannot be read any more.
        """
        found = self._reader.poll(timeout_s)
        return isinstance(found, Record) and self.head.read(found.value)

    def close(self) -> None:
        """Release the client."""
        self._reader.close()
