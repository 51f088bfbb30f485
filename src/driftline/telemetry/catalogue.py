"""Every metric there is. ``docs/metrics.md`` explains them; a test holds the two against each other."""

from driftline.telemetry.metrics import Kind, Metric

MEMBER_LABELS = ("run", "role", "member")
"""Labels of every metric: name of the run, ``server``, ``worker`` or ``evaluator``, name of the process in the run."""

STALENESS_BOUNDS = (0, 1, 2, 4, 8, 16, 32, 64)
"""Upper bounds of the staleness histogram's buckets, in versions."""

# -- the run, as the ledger tells it to whoever reads it -------------------------------------------------------------

VERSION = Metric("driftline_version", Kind.GAUGE, "Newest version in the ledger, as far as this process has read it")
STEPS = Metric("driftline_steps", Kind.GAUGE, "Version at which the run ends; absent if it has no last one")
TERM = Metric("driftline_term", Kind.GAUGE, "Term of the coordinator that reigns")
CHECKPOINT = Metric(
    "driftline_checkpoint_version", Kind.GAUGE, "Version whose snapshots are official; absent before the first"
)
BEGAN = Metric(
    "driftline_began_at_version",
    Kind.GAUGE,
    "Version of the checkpoint at which this process began to read the ledger; 0 at its beginning",
)
PASSED_OVER = Metric(
    "driftline_checkpoints_passed_over_total",
    Kind.COUNTER,
    "Checkpoints at which this process could not begin: they do not count, or are not what they say",
)
ENDED = Metric("driftline_run_ended", Kind.GAUGE, "1 once the ledger holds the end of the run, 0 before")
FAILED = Metric("driftline_run_failed", Kind.GAUGE, "1 if that end is a failure, 0 otherwise")
MEMBERS = Metric("driftline_members", Kind.GAUGE, "Workers that are members of the run")
LOSS = Metric("driftline_loss", Kind.GAUGE, "Weighted mean loss of the training batches of the newest version")
EVALUATION = Metric("driftline_evaluation", Kind.GAUGE, "Metric on held-out data, as measured last", ("metric",))
SAMPLES = Metric("driftline_samples_total", Kind.COUNTER, "Samples that went into versions")
CONTRIBUTIONS = Metric(
    "driftline_contributions_total",
    Kind.COUNTER,
    "Clocks that the ledger settled: used, skipped or rejected",
    ("worker", "outcome"),
)
REJECTIONS = Metric("driftline_rejections_total", Kind.COUNTER, "Contributions that the ledger rejected", ("reason",))
STALENESS = Metric("driftline_staleness_versions", Kind.HISTOGRAM, "Staleness of the contributions that were used")
VOID = Metric("driftline_void_records_total", Kind.COUNTER, "Ledger records that do not count")

# -- a process and Kafka ---------------------------------------------------------------------------------------------

RECORDS = Metric("driftline_records_total", Kind.COUNTER, "Records read and written", ("stream", "direction"))
BYTES = Metric("driftline_bytes_total", Kind.COUNTER, "Their values, in bytes", ("stream", "direction"))
SEND_FAILURES = Metric("driftline_send_failures_total", Kind.COUNTER, "Records that Kafka did not acknowledge in time")
UNDECODABLE = Metric("driftline_undecodable_total", Kind.COUNTER, "Records that are none of ours", ("stream",))
QUEUE = Metric("driftline_queue_records", Kind.GAUGE, "Records read and not yet handled")
HANDLING = Metric("driftline_handling_seconds", Kind.SUMMARY, "Time to handle one input", ("input",))
LOG_LINES = Metric("driftline_log_lines_total", Kind.COUNTER, "Warnings and errors in the log", ("level",))

# -- a server --------------------------------------------------------------------------------------------------------

PARTITIONS_OWNED = Metric("driftline_partitions_owned", Kind.GAUGE, "Partitions that this server owns")
SHARDS_OWNED = Metric("driftline_shards_owned", Kind.GAUGE, "Shards in them")
REBUILDS = Metric(
    "driftline_rebuilds_total", Kind.COUNTER, "Times that a partition's state was rebuilt from snapshots and deltas"
)
TRIMS = Metric("driftline_trims_total", Kind.COUNTER, "Deletions of deltas that a checkpoint covers", ("outcome",))
APPLIED = Metric(
    "driftline_applied_version", Kind.GAUGE, "Newest version that is applied to every shard owned; absent without any"
)
HELD_DELTAS = Metric("driftline_held_deltas", Kind.GAUGE, "Deltas that wait for their version")
HELD_BYTES = Metric("driftline_held_bytes", Kind.GAUGE, "Their payload, in bytes")
DELTAS_DROPPED = Metric("driftline_deltas_dropped_total", Kind.COUNTER, "Deltas read and not held", ("reason",))
COORDINATING = Metric("driftline_coordinating", Kind.GAUGE, "1 while this server is the coordinator, 0 otherwise")
REIGNS = Metric("driftline_reigns_total", Kind.COUNTER, "Times that this server became the coordinator")
STATELESS = Metric(
    "driftline_checkpoints_without_state_total",
    Kind.COUNTER,
    "At the coordinator: checkpoints at which nobody can begin, because their state was too large or too long ago",
    ("reason",),
)
PENDING = Metric(
    "driftline_pending_contributions", Kind.GAUGE, "At the coordinator: clocks heard of and not settled, skips included"
)
EVENTS_DROPPED = Metric(
    "driftline_events_dropped_total", Kind.COUNTER, "At the coordinator: events read and not believed", ("reason",)
)

# -- a worker --------------------------------------------------------------------------------------------------------

CLOCK = Metric("driftline_clock", Kind.GAUGE, "The last clock that this worker spent")
MODEL_VERSION = Metric(
    "driftline_model_version", Kind.GAUGE, "Newest version whose parameters this process has; absent before the first"
)
WAITING = Metric("driftline_waiting_ratio", Kind.GAUGE, "Share of its time in which it has nothing to compute, 0 to 1")
UNSETTLED = Metric("driftline_unsettled_contributions", Kind.GAUGE, "Its clocks that the ledger has not settled")
PARAMETERS_DROPPED = Metric(
    "driftline_parameters_dropped_total", Kind.COUNTER, "Parameter records read and not taken", ("reason",)
)

METRICS = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
