"""What a run will take of Kafka's disks, before it does: arithmetic on its settings and layout."""

from driftline.consumers.shard import tensor_names
from driftline.schemas.layout import Layout
from driftline.schemas.run_config import RunConfig
from driftline.schemas.tensors import FP32_BYTES

_UNITS = ("kB", "MB", "GB", "TB")
_STEP = 1000.0


def disk_use(config: RunConfig, layout: Layout) -> str:
    """Say in one line how much each copy of the run's log grows, and what keeps it small.

    Deltas are the bulk: one model a worker and version. Snapshots hold the model, its moments and step counts.
    Parameters and events are bounded by the retention of their topics, and are left out.
    """
    model = layout.elements * FP32_BYTES
    per_version = model * config.workers
    per_snapshot = model * (len(tensor_names(config.rule)) - 1)
    if config.trims:
        kept = config.snapshot_every * per_version + 2 * per_snapshot
        return (
            f"on Kafka's disks: about {size(per_version)} of deltas a version, deleted behind each checkpoint (every "
            f"{config.snapshot_every} versions), so about {size(kept)} at a time, a copy"
        )
    versions = config.horizon
    total = versions * per_version + (versions // max(1, config.snapshot_every)) * per_snapshot
    growth = f"about {size(per_version)} of deltas a version"
    whole = f", about {size(total)} to version {versions}" if versions else ""
    return f"on Kafka's disks: {growth}{whole}, a copy, kept for ever (--retain checkpoint keeps less, and proves less)"


def size(count: float) -> str:
    """Return a number of bytes in words: 1.2 MB."""
    value = count / _STEP
    for unit in _UNITS[:-1]:
        if value < _STEP:
            return f"{value:.1f} {unit}"
        value /= _STEP
    return f"{value:.1f} {_UNITS[-1]}"
