"""What a run takes of Kafka's disks: before it does, arithmetic on its settings and layout; later, what is there."""

from collections.abc import Mapping

from driftline.broker.port import Bounds, Broker
from driftline.broker.topics import Stream, topic_name
from driftline.errors import RightMissing, TopicMissing
from driftline.ledger.run_state import RunState
from driftline.rules import tensor_names
from driftline.schemas.model.layout import Layout
from driftline.schemas.model.tensors import FP32_BYTES
from driftline.schemas.run.config import RunConfig

_UNITS = ("kB", "MB", "GB", "TB")
_STEP = 1000.0


def disk_use(config: RunConfig, layout: Layout) -> str:
    """Say in one line how much each copy of the run's log grows, and what keeps it small.

    Deltas are the bulk: one model a worker and version. Snapshots hold the model, its moments and step counts.
    Parameters and events are bounded by the retention of their topics, and are left out.
    """
    per_version, most = layout.elements * FP32_BYTES * config.workers, most_bytes(config, layout)
    if config.trims:
        return (
            f"on Kafka's disks: about {size(per_version)} of deltas a version, deleted behind each checkpoint (every "
            f"{config.snapshot_every} versions), so about {size(most)} at a time, a copy"
        )
    growth = f"about {size(per_version)} of deltas a version"
    whole = f", about {size(most)} to version {config.horizon}" if config.horizon else ""
    return f"on Kafka's disks: {growth}{whole}, a copy, kept for ever (--retain checkpoint keeps less, and proves less)"


def most_bytes(config: RunConfig, layout: Layout) -> int:
    """Return how many bytes of deltas and snapshots a copy of the log will hold at most; 0 if nobody can tell."""
    model = layout.elements * FP32_BYTES
    per_version = model * config.workers
    per_snapshot = model * (len(tensor_names(config.rule)) - 1)
    if config.trims:
        return config.snapshot_every * per_version + 2 * per_snapshot
    versions = config.horizon
    return versions * per_version + (versions // max(1, config.snapshot_every)) * per_snapshot


def kept_deltas(broker: Broker, run: str, state: RunState) -> int | None:
    """Return how many bytes of gradients the log of a run holds now, in one copy.

    None if we may not look, if the topic is gone (the ledger can still be read), and before the start of the run.

    Counted by offsets: a delta that came twice counts twice, and of headers nothing does.

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


def size(count: float) -> str:
    """Return a number of bytes in words: 1.2 MB."""
    value = count / _STEP
    for unit in _UNITS[:-1]:
        if value < _STEP:
            return f"{value:.1f} {unit}"
        value /= _STEP
    return f"{value:.1f} {_UNITS[-1]}"
