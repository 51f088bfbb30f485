"""Metrics of a server, read from its state machines."""

from collections import Counter
from collections.abc import Iterator, Mapping

from driftline.broker.topics import Stream
from driftline.consumers.coordinator.coordinator import Phase
from driftline.consumers.server.server import Server
from driftline.ledger.metrics import by_reason, run_samples
from driftline.telemetry import catalogue
from driftline.telemetry.metrics import Sample

DELTA_REASONS = {
    "deltas_not_owned": "not_owned",
    "deltas_refused": "refused",
    "deltas_late": "late",
    "deltas_too_far_ahead": "too_far_ahead",
    "duplicates": "duplicate",
    "conflicting_deltas": "conflicting",
}
"""Counter of a server → reason of a dropped delta."""

EVENT_REASONS = {
    "foreign_events": "foreign_run",
    "events_refused": "refused",
    "late_events": "settled",
    "clocks_too_far_ahead": "too_far_ahead",
}
"""Counter of the evidence → reason of a dropped event."""


STATELESS_REASONS = {"checkpoints_too_large": "too_large", "checkpoints_too_old": "too_old"}
"""Counter of the evidence → why a checkpoint has no state."""


def server_samples(server: Server) -> Iterator[Sample]:
    """Yield the metrics of a server: of the run, of what it owns, and of the coordinator's role."""
    yield from run_samples(server.state)
    owned = server.shards.owned.values()
    yield Sample(catalogue.PARTITIONS_OWNED, len(owned))
    yield Sample(catalogue.SHARDS_OWNED, sum(len(one.wanted) for one in owned))
    yield Sample(catalogue.REBUILDS, server.shards.counters["rebuilds"])
    if owned:
        yield Sample(catalogue.APPLIED, min(one.version for one in owned))
    held = [delta for one in owned for shards in one.held.values() for delta in shards.values()]
    yield Sample(catalogue.HELD_DELTAS, len(held))
    yield Sample(catalogue.HELD_BYTES, sum(delta.gradient.nbytes for delta in held))
    yield from by_reason(catalogue.DELTAS_DROPPED, _renamed(server.shards.counters, DELTA_REASONS))
    for stream in (Stream.DELTAS, Stream.EVENTS, Stream.SNAPSHOTS):
        yield Sample(catalogue.UNDECODABLE, server.counters[f"undecodable_{stream}"], {"stream": stream.value})
    leads = server.coordinator.phase is Phase.LEADING
    yield Sample(catalogue.COORDINATING, float(leads))
    for metric in (catalogue.LEADERSHIPS, catalogue.REIGNS):
        yield Sample(metric, server.coordinator.leaderships)
    if leads:
        yield Sample(catalogue.PENDING, len(server.coordinator.evidence.offers))
    yield from by_reason(catalogue.STATELESS, _renamed(server.coordinator.evidence.counters, STATELESS_REASONS))
    yield from by_reason(catalogue.EVENTS_DROPPED, _renamed(server.coordinator.evidence.counters, EVENT_REASONS))


def _renamed(counters: Counter[str], names: Mapping[str, str]) -> dict[str, int]:
    """Return every counter of ``names`` under its other name: also one that is 0, so that its rate begins there."""
    return {reason: counters[name] for name, reason in names.items()}
