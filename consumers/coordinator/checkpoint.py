"""The decision that makes snapshots official, with the state to go on from them."""

from dataclasses import replace

from driftline.broker.port import MAX_RECORD_BYTES
from driftline.consumers.coordinator.evidence import Evidence
from driftline.ledger.run_state import RunState
from driftline.schemas.codec import encode
from driftline.schemas.records import Checkpoint


def checkpoint(state: RunState, evidence: Evidence, _ticks: int) -> Checkpoint | None:
    """Make the newest snapshots official that are durable in every partition."""
    durable = evidence.durable()
    if durable is None:
        return None
    version, reports = durable
    places = sorted((place for report in reports for place in report.places), key=lambda one: (one.shard, one.tensor))
    dumped = state.dumps.get(version)
    record = Checkpoint(
        term=state.chain.term,
        parent=state.chain.head,
        version=version,
        floors=_floors(state, [report.floor for report in reports]),
        places=tuple(places),
        state=() if dumped is None else (dumped,),
    )
    if dumped is not None and len(encode(record)) <= MAX_RECORD_BYTES:
        return record
    # Servers rebuild shards from it all the same; newcomers start from an earlier one.
    evidence.counters["checkpoints_too_old" if dumped is None else "checkpoints_too_large"] += 1
    return replace(record, state=())


def _floors(state: RunState, reported: list[int]) -> tuple[int, ...]:
    """Return the first delta of each partition that is needed; never one that an earlier checkpoint gave up.

    A server may report less than another did before: it holds a copy that nobody needs, or has read less.
    """
    before = state.checkpoint
    if before is None:
        return tuple(reported)
    return tuple(max(pair) for pair in zip(reported, before.floors, strict=True))
