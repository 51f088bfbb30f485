"""What the readers of a run make of one record: servers of a delta, the coordinator of an event, everybody of the rest.

It asks the same checks that they use.
"""

from driftline.broker.topics import Stream
from driftline.consumers.server.delta_check import check_delta, not_finite
from driftline.consumers.server.snapshot_check import names_version_0
from driftline.errors import Undecodable
from driftline.ledger.event_check import event_problem
from driftline.observe.records.places import RecordPlace
from driftline.observe.records.story import Story
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

NO_START = "nobody can tell: the run has not started"


def verdict(place: RecordPlace, record: AnyRecord, value: bytes, story: Story) -> str:
    """Say in words what becomes of a record at its place."""
    match place.stream, record:
        case Stream.LEDGER, _:
            return _ledger(place, story)
        case Stream.DELTAS, Delta():
            return _delta(place, record, value, story)
        case Stream.EVENTS, _ if isinstance(record, Event):
            return _event(record, story)
        case Stream.PARAMETERS, Parameters():
            return _parameters(record, value, story)
        case Stream.SNAPSHOTS, Snapshot():
            return _snapshot(record, value, story)
        case _:
            return f"a {type(record).__name__} does not belong into {place.stream.value}: readers count it and go on"


def _ledger(place: RecordPlace, story: Story) -> str:
    entry = next(one for one in story.entries if one.offset == place.offset)
    return f"{entry.fate}; the head behind it is {entry.head.hex()}" if entry.counts else entry.fate


def fate_of_clock(group: GroupId, clock: int, story: Story) -> str:
    """Say what the ledger decided on one clock of a group."""
    state, whose = story.state, f"clock {clock} of {story.name(group)}"
    used = state.used_at.get((group, clock))
    if used is not None:
        use = next(use for use in state.versions[used].uses if (use.group, use.clock) == (group, clock))
        if use.kind != "delta":
            return f"{whose} was skipped: version {used} settles it without a delta"
        return f"{whose} went into version {used} with coefficient {use.coefficient:.7g}, staleness {use.staleness}"
    if group in state.removed:
        return f"{whose} was never used: the group was removed ({state.removed[group]})"
    if group not in story.names:
        return f"{whose}: the ledger knows no such group"
    return f"{whose} was rejected" if state.is_settled(group, clock) else f"{whose} is not decided yet"


def _delta(place: RecordPlace, record: Delta, value: bytes, story: Story) -> str:
    state = story.state
    if not state.has_begun:
        return NO_START
    try:
        reason = not_finite(
            state.layout, record, check_delta(state.start.run, state.layout, place.partition, record, value)
        )
    except Undecodable as error:
        return f"servers do not take it: {error}"
    if reason:
        return f"servers refuse it: {reason}; {fate_of_clock(record.group, record.clock, story)}"
    return fate_of_clock(record.group, record.clock, story)


def _event(record: Event, story: Story) -> str:
    if story.state.has_begun and record.run not in (story.state.start.run, NO_RUN):
        return "it is of another run under the same name: counted and dropped"
    problem = event_problem(record, story.state)
    if problem:
        return f"the coordinator does not believe it: {problem}"
    if isinstance(record, Contribution | Skip | Receipt):
        return fate_of_clock(record.group, record.clock, story)
    return "sound"


def _parameters(record: Parameters, value: bytes, story: Story) -> str:
    state = story.state
    if not state.has_begun:
        return NO_START
    if not verify_digest(state.start.run, value, record):
        return "nobody takes it: it is not what its digest says"
    head = state.heads.get(record.version)
    if head is None:
        return f"nobody takes it: the ledger has no version {record.version}"
    if head != record.head:
        return f"nobody takes it: version {record.version} of this ledger has another head, {head.hex()[:16]}"
    return f"shard {record.shard} of version {record.version}, for readers of the model"


def _snapshot(record: Snapshot, value: bytes, story: Story) -> str:
    if not story.state.has_begun:
        return NO_START
    start = story.state.start
    if not names_version_0(start, record):
        return "it is no part of this run: a proposal that was not chosen"
    if not verify_digest(start.run, value, record):
        return "nobody takes it: it is not what its digest says"
    return f"version 0 of shard {record.shard}, from which the run started"
