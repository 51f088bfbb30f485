"""What an event must be before the coordinator believes it.

An event has no digest, so any client that may write to the topic can send any numbers. They are checked here before
one reaches an index, a table or a ledger record.
"""

from typing import Final

from driftline.ledger.run_state import RunState
from driftline.schemas.model.layout import Layout
from driftline.schemas.records import (
    Contribution,
    EvaluationReport,
    Event,
    Heartbeat,
    Leave,
    Proposal,
    Ready,
    Receipt,
    ServerState,
    ShardReceipt,
    Skip,
    SnapshotReport,
    StopRequest,
)
from driftline.schemas.records.identity import is_member_name
from driftline.schemas.records.sample_range import samples_problem

MAX_TEXT_CHARS: Final = 2_000
"""Of a reason that goes on into the ledger; what is beyond is cut off, so that the record fits."""

MOST_BATCHES: Final = 2**53
"""More than any worker can have read."""

MOST_RANGES: Final = 4_096
"""Of samples that one clock has read: so many fit into a ledger record beside everything else."""

VERSIONS_AHEAD: Final = 64
"""Versions by which a server may be ahead of what this process has read of the ledger."""

_LAST_OFFSET: Final = 2**63 - 2
"""A version records the offset behind it, in 64 bits."""


def event_problem(event: Event, state: RunState | None) -> str:
    """Return what keeps an event from being believed; nothing if it may be.

    Args:
        event: as decoded.
        state: fold of the ledger; None judges the event alone.
    """
    sender = _sender(event)
    if sender is not None and not is_member_name(sender):
        return "its sender has no legal name"
    if isinstance(event, Contribution | Skip | Receipt) and event.clock < 1:
        return f"clock {event.clock}: clocks begin at 1"
    if isinstance(event, Contribution | Skip):
        return _read_problem(event)
    if state is None or not state.has_begun:
        return ""
    return _servers_problem(event, state.version + VERSIONS_AHEAD, state.layout)


def _servers_problem(event: Event, newest: int, layout: Layout) -> str:
    match event:
        case Receipt():
            return next((problem for one in event.shards if (problem := _receipt_problem(one, layout))), "")
        case ServerState():
            return _server_problem(event, newest, layout)
        case SnapshotReport():
            return _snapshot_problem(event, newest, layout)
        case _:
            return ""


def shorten(text: str) -> str:
    """Cut a text that goes on into the ledger."""
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[:MAX_TEXT_CHARS]}…"


def _sender(event: Event) -> str | None:
    match event:
        case Proposal() | Ready() | Leave():
            return event.worker
        case Heartbeat():
            return event.member
        case Receipt() | ServerState() | SnapshotReport():
            return event.server
        case EvaluationReport():
            return event.evaluator
        case StopRequest():
            return event.sender
        case _:
            return None


def _read_problem(event: Contribution | Skip) -> str:
    if not 0 <= event.cursor <= MOST_BATCHES:
        return f"cursor {event.cursor}: no worker has read so many batches"
    if len(event.samples) > MOST_RANGES:
        return f"samples in {len(event.samples)} ranges"
    return samples_problem(event.samples)


def _receipt_problem(receipt: ShardReceipt, layout: Layout) -> str:
    if not 0 <= receipt.shard < layout.shard_count:
        return f"shard {receipt.shard} of {layout.shard_count}"
    if receipt.partition != layout.partition_of(receipt.shard):
        return f"shard {receipt.shard} does not live in partition {receipt.partition}"
    return "" if 0 <= receipt.offset <= _LAST_OFFSET else f"offset {receipt.offset}"


def _server_problem(event: ServerState, newest: int, layout: Layout) -> str:
    if not 0 <= event.version <= newest:
        return f"version {event.version}, which cannot be known yet"
    for position in event.partitions:
        if not 0 <= position.partition < layout.partitions:
            return f"partition {position.partition} of {layout.partitions}"
    for digest in event.shards:
        if not 0 <= digest.shard < layout.shard_count or not 0 <= digest.version <= newest:
            return f"a digest of shard {digest.shard} at version {digest.version}"
    return ""


def _snapshot_problem(event: SnapshotReport, newest: int, layout: Layout) -> str:
    if not 0 <= event.version <= newest:
        return f"snapshots of version {event.version}, which cannot be known yet"
    if not 0 <= event.partition < layout.partitions:
        return f"snapshots of partition {event.partition} of {layout.partitions}"
    offsets = [event.floor, *(place.offset for place in event.places)]
    return next((f"offset {offset}" for offset in offsets if not 0 <= offset <= _LAST_OFFSET), "")
