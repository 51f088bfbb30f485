"""What the readers of a run do with one record: servers with a delta, the coordinator with an event, and so on.

It calls the same checks as they do.
"""

from driftline.broker.topics import Stream
from driftline.consumers.server.partition import check_delta, not_finite
from driftline.consumers.server.snapshots import names_version_0
from driftline.errors import Undecodable
from driftline.ledger.event_check import event_problem
from driftline.observe.records.annotated_ledger import AnnotatedLedger
from driftline.observe.records.selection import RecordPosition
from driftline.schemas.digests import verify_digest
from driftline.schemas.records import (
    NO_RUN,
    AnyRecord,
    Contribution,
    Delta,
    Event,
    GroupId,
    Parameters,
    Receipt,
    Skip,
    Snapshot,
)

NO_START = "not known: the run has not started"


def verdict(position: RecordPosition, record: AnyRecord, value: bytes, ledger: AnnotatedLedger) -> str:
    """Describe what becomes of a record at its position."""
    match position.stream, record:
        case Stream.LEDGER, _:
            return _ledger(position, ledger)
        case Stream.DELTAS, Delta():
            return _delta(position, record, value, ledger)
        case Stream.EVENTS, _ if isinstance(record, Event):
            return _event(record, ledger)
        case Stream.PARAMETERS, Parameters():
            return _parameters(record, value, ledger)
        case Stream.SNAPSHOTS, Snapshot():
            return _snapshot(record, value, ledger)
        case _:
            return f"a {type(record).__name__} does not belong into {position.stream.value}: readers count it and go on"


def _ledger(position: RecordPosition, ledger: AnnotatedLedger) -> str:
    entry = next(one for one in ledger.entries if one.offset == position.offset)
    return f"{entry.note}; the head after it is {entry.head.hex()}" if entry.counts else entry.note


def fate_of_clock(group: GroupId, clock: int, ledger: AnnotatedLedger) -> str:
    """Describe what the ledger decided on one clock of a group."""
    state, whose = ledger.state, f"clock {clock} of {ledger.name(group)}"
    used = state.used_at.get((group, clock))
    if used is not None:
        use = next(use for use in state.versions[used].uses if (use.group, use.clock) == (group, clock))
        if use.kind != "delta":
            return f"{whose} was skipped: version {used} settles it without a delta"
        return f"{whose} went into version {used} with coefficient {use.coefficient:.7g}, staleness {use.staleness}"
    if group in state.removed:
        return f"{whose} was never used: the group was removed ({state.removed[group]})"
    if group not in ledger.names:
        return f"{whose}: the ledger knows no such group"
    return f"{whose} was rejected" if state.is_settled(group, clock) else f"{whose} is not decided yet"


def _delta(position: RecordPosition, record: Delta, value: bytes, ledger: AnnotatedLedger) -> str:
    state = ledger.state
    if not state.has_begun:
        return NO_START
    try:
        sound = check_delta(state.start.run, state.layout, position.partition, record, value, position.offset)
        reason = not_finite(state.layout, sound)
    except Undecodable as error:
        return f"servers do not take it: {error}"
    if reason:
        return f"servers refuse it: {reason}; {fate_of_clock(record.group, record.clock, ledger)}"
    return fate_of_clock(record.group, record.clock, ledger)


def _event(record: Event, ledger: AnnotatedLedger) -> str:
    if ledger.state.has_begun and record.run not in (ledger.state.start.run, NO_RUN):
        return "it is of another run under the same name: counted and dropped"
    problem = event_problem(record, ledger.state)
    if problem:
        return f"the coordinator drops it: {problem}"
    if isinstance(record, Contribution | Skip | Receipt):
        return fate_of_clock(record.group, record.clock, ledger)
    return "sound"


def _parameters(record: Parameters, value: bytes, ledger: AnnotatedLedger) -> str:
    state = ledger.state
    if not state.has_begun:
        return NO_START
    if not verify_digest(state.start.run, value, record):
        return "readers drop it: it is not what its digest says"
    head = state.heads.get(record.version)
    if head is None:
        return f"readers drop it: the ledger has no version {record.version}"
    if head != record.head:
        return f"readers drop it: version {record.version} of this ledger has another head, {head.hex()[:16]}"
    return f"shard {record.shard} of version {record.version}, for readers of the model"


def _snapshot(record: Snapshot, value: bytes, ledger: AnnotatedLedger) -> str:
    if not ledger.state.has_begun:
        return NO_START
    start = ledger.state.start
    if not names_version_0(start, record):
        return "it is not part of this run: its proposal was not chosen"
    if not verify_digest(start.run, value, record):
        return "readers drop it: it is not what its digest says"
    return f"version 0 of shard {record.shard}, from which the run started"
