"""Where a newcomer enters a ledger: at the last checkpoint whose state it can take over, or at its beginning.

The search goes backwards from the ledger's end, block by block: what follows a checkpoint has to be read in any case,
and there is no pointer that could be wrong. A checkpoint is entered only if it counts for a reader that begins where it
says, so a checkpoint of a replaced coordinator is passed over:

- the record of its version is where the state says, and its hash is the head that the state says;
- the start of the run is where the state says, with the hash that the state says;
- the state is one that a fold comes to (`driftline.ledger.restore`);
- folded on from there, the checkpoint's own record counts, behind everything in between.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from driftline.errors import ConfigError, IntegrityError, Undecodable
from driftline.ledger.restore import NotRestorable, restore
from driftline.ledger.run_state import RunState
from driftline.schemas.codec import decode, peek_type
from driftline.schemas.digests import next_head
from driftline.schemas.records import Checkpoint, RunStart, Version
from driftline.schemas.run.config_json import run_config_from_json

FIRST_BLOCK: Final = 512
"""Records that are read back at first; twice as many each time that no checkpoint is among them."""

LARGEST_BLOCK: Final = 8192

MOST_LOOKED_AT: Final = 65_536
"""Records that are read back in search of a checkpoint before it is given up."""

BIRTH: Final = 64
"""Records at the beginning of a ledger among which the start of its run is looked for."""

Value = tuple[int, bytes | None]
Look = Callable[[int, int], Iterable[Value]]
"""Returns offset and value of the records of the ledger from one offset up to, and without, another, in order."""

Anchor = TypeVar("Anchor", RunStart, Version)


class _PassedOver(Exception):
    """A checkpoint that cannot be entered at; says why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A checkpoint to begin at.

    Attributes:
        offset: in the ledger.
        record: there.
        start: of the run.
        behind: what stands from behind the record of its version up to, and with, its own.
    """

    offset: int
    record: Checkpoint
    start: RunStart
    behind: tuple[Value, ...]

    def state(self) -> RunState:
        """Return the fold of the ledger behind the checkpoint, a new one each time.

        Raises:
            NotRestorable: no fold comes to the state that it carries.
            IntegrityError: something behind it contradicts it.
        """
        state = restore(self.record, self.start)
        for offset, value in self.behind:
            state.read(offset, value)
        state.forget_before(self.record.version)
        return state


@dataclass(frozen=True, slots=True)
class Search:
    """How the search for an entry went.

    Attributes:
        entry: what was found; None where the ledger has to be read from its beginning.
        looked_at: records that were read.
        looked_at_bytes: their values.
        passed_over: checkpoints that were found and cannot be entered at: why, newest first.
    """

    entry: Entry | None
    looked_at: int
    looked_at_bytes: int
    passed_over: tuple[str, ...]

    def state(self) -> RunState:
        """Return the fold to go on with, a new one each time."""
        state = RunState() if self.entry is None else self.entry.state()
        state.passed_over = len(self.passed_over)
        return state


def find_entry(look: Look, begin: int, end: int, block: int = FIRST_BLOCK) -> Search:
    """Look for the last checkpoint of a ledger at which a newcomer can enter.

    Args:
        look: reads the ledger.
        begin: the first offset that it has.
        end: the offset behind its last record.
        block: records that are read back at first.
    """
    looking = _Looking(look, begin, end, block)
    entry = looking.newest()
    return Search(entry, looking.looked_at, looking.looked_at_bytes, tuple(looking.passed_over))


class _Looking:
    def __init__(self, look: Look, begin: int, end: int, block: int) -> None:
        self._look, self._begin, self._end, self._block = look, begin, end, block
        self._known: dict[int, bytes | None] = {}
        self.looked_at = self.looked_at_bytes = 0
        self.passed_over: list[str] = []

    def newest(self) -> Entry | None:
        """Go back from the end until there is an entry."""
        stop, size = self._end, self._block
        while self._begin < stop and self.looked_at < MOST_LOOKED_AT:
            first = max(self._begin, stop - size)
            entry = self._newest_of(self._read(first, stop))
            if entry is not None or (stop == self._end and not self._has_checkpoints()):
                return entry
            stop, size = first, min(2 * size, LARGEST_BLOCK)
        return None

    def _newest_of(self, block: list[Value]) -> Entry | None:
        for offset, value in reversed(block):
            if peek_type(value) is Checkpoint:
                try:
                    entry = self._entry(offset, value)
                except (_PassedOver, NotRestorable, IntegrityError, Undecodable) as error:
                    self.passed_over.append(f"the checkpoint at ledger offset {offset} is passed over: {error}")
                    continue
                if entry is not None:
                    return entry
        return None

    def _entry(self, offset: int, value: bytes | None) -> Entry | None:
        record = decode(value)
        if not isinstance(record, Checkpoint) or not record.state:
            return None  # of an earlier release, or too large
        dumped = record.state[0]
        made = dumped.next_offset - 1
        if not self._begin <= dumped.start_offset < made < offset:
            raise _PassedOver(f"it says that its version stands at offset {made}, its run at {dumped.start_offset}")
        start = self._anchor(dumped.start_offset, dumped.start_head, RunStart)
        version = self._anchor(made, dumped.head, Version)
        if (version.version, version.term) != (record.version, dumped.term):
            raise _PassedOver(f"version {version.version} of term {version.term} stands at offset {made}")
        entry = Entry(offset, record, start, tuple(self._read(made + 1, offset + 1)))
        if entry.state().checkpoint != record:
            raise _PassedOver("it does not count")
        return entry

    def _anchor(self, offset: int, head: bytes, kind: type[Anchor]) -> Anchor:
        """Return the record at an offset if it is what it must be, with this head behind it."""
        [*values] = self._read(offset, offset + 1)
        value = values[0][1] if values and values[0][0] == offset else None
        record = decode(value)
        if not isinstance(record, kind) or next_head(record.parent, value or b"") != head:
            raise _PassedOver(f"at offset {offset} is no {kind.__name__} with head {head.hex()[:16]} after it")
        return record

    def _has_checkpoints(self) -> bool:
        """Whether the run takes any, as its start says; True if that cannot be known."""
        for _, value in self._read(self._begin, min(self._end, self._begin + BIRTH)):
            if peek_type(value) is RunStart:
                try:
                    record = decode(value)
                    return not isinstance(record, RunStart) or run_config_from_json(record.config).snapshot_every > 0
                except (ConfigError, Undecodable):
                    return True
        return True

    def _read(self, first: int, stop: int) -> list[Value]:
        if all(offset in self._known for offset in range(first, stop)):
            return [(offset, self._known[offset]) for offset in range(first, stop)]
        values = list(self._look(first, stop))
        self._known.update(values)
        self.looked_at += len(values)
        self.looked_at_bytes += sum(len(value or b"") for _, value in values)
        return values
