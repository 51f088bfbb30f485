"""Newcomers of the simulation begin at the last checkpoint, as real ones do."""

from collections.abc import Iterator

from driftline.broker.topics import Stream
from driftline.ledger.entering.entry import Value, find_entry
from driftline.ledger.run_state import RunState
from tests.simulation.promises.records import Promises
from tests.simulation.promises.reference_ledger import require
from tests.simulation.run.log import Place, RunLog

LEDGER: Place = (Stream.LEDGER, 0)


def enter(log: RunLog, promises: Promises, block: int) -> RunState:
    """Return the fold that a newcomer begins with, whatever was put into the ledger beside what counts.

    Raises:
        Violation: it is not that of the last official checkpoint with a state.
    """

    def look(first: int, stop: int) -> Iterator[Value]:
        while first < stop and (record := log.read(LEDGER, first)) is not None:
            yield record.offset, record.value
            first = record.offset + 1

    search = find_entry(look, log.begin(LEDGER), log.ends[LEDGER], block)
    right, found = promises.ledger.entry, None if search.entry is None else search.entry.record
    require(found == right, f"a process begins at {found and found.version}, official is {right and right.version}")
    return search.state()
