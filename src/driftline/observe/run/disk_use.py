"""Use of Kafka's disks by a run: a forecast from settings and layout, and later the bytes that are there."""

from collections.abc import Mapping

from rich.filesize import decimal as size

from driftline.broker.port import Bounds, Broker
from driftline.broker.topics import Stream, topic_name
from driftline.errors import RightMissing, TopicMissing
from driftline.ledger.run_state import RunState
from driftline.rules import tensor_names
from driftline.schemas.model.layout import Layout
from driftline.schemas.model.tensors import FP32_BYTES
from driftline.schemas.run.config import RunConfig


def disk_use(config: RunConfig, layout: Layout) -> str:
    """Describe in one line how much each copy of the run's log grows, and what keeps it small.

    Deltas are the bulk: one model a worker and version. Snapshots hold the model, its moments and step counts.
    Parameters and events are bounded by the retention of their topics, and are left out.
    """
    per_version, most = layout.elements * FP32_BYTES * config.workers, most_bytes(config, layout)
    if config.trims:
        return (
            f"on Kafka's disks: about {size(per_version)} of deltas a version, deleted after each checkpoint (every "
            f"{config.snapshot_every} versions), so about {size(most)} at a time, in each copy"
        )
    growth = f"about {size(per_version)} of deltas a version"
    whole = f", about {size(most)} to version {config.horizon}" if config.horizon else ""
    kept = "kept for ever (--retain checkpoint keeps less, and proves less)"
    return f"on Kafka's disks: {growth}{whole}, in each copy, {kept}"


def most_bytes(config: RunConfig, layout: Layout) -> int:
    """Return the most bytes of deltas and snapshots that a copy of the log will hold; 0 if the run has no end."""
    model = layout.elements * FP32_BYTES
    per_version = model * config.workers
    per_snapshot = model * (len(tensor_names(config.rule)) - 1)
    if config.trims:
        return config.snapshot_every * per_version + 2 * per_snapshot
    versions = config.horizon
    return versions * per_version + (versions // max(1, config.snapshot_every)) * per_snapshot


def kept_deltas(broker: Broker, run: str, state: RunState) -> int | None:
    """Return the bytes of gradients that one copy of a run's log holds now, without headers.

    None if this client may not read the topic's offsets, if the topic is gone, and before the start of the run.

    Raises:
        BrokerError: Kafka does not answer.
    """
    if not state.has_begun:
        return None
    admin = broker.admin()
    try:
        return deltas_between(admin.bounds(topic_name(run, Stream.DELTAS)), state.layout)
    except (RightMissing, TopicMissing):
        return None
    finally:
        admin.close()


def deltas_between(bounds: Mapping[int, Bounds], layout: Layout) -> int:
    """Return the bytes of gradients between the offsets of each partition: every clock has one delta of each shard."""
    total = 0
    for partition, kept in bounds.items():
        shards = layout.shards_of(partition)
        if shards:
            elements = sum(stop - start for start, stop in map(layout.shard_range, shards))
            total += (kept.end - kept.begin) * elements * FP32_BYTES // len(shards)
    return total
