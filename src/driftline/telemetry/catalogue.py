"""Every metric that exists. ``docs/metrics.md`` explains them; a test compares the two."""

from driftline.telemetry.metrics import Kind, Metric

MEMBER_LABELS = ("run", "role", "member")
"""Labels of every metric: the run's name; ``server``, ``worker`` or ``evaluator``; name of the process in the run."""

STALENESS_BOUNDS = (0, 1, 2, 4, 8, 16, 32, 64)
"""Upper bounds of the staleness histogram's buckets, in versions."""

# -- the run, as its ledger says --------------------------------------------------------------------------------------

VERSION = Metric(
    "driftline_version", Kind.GAUGE, "Head version: the newest one in the ledger, as far as this process has read it"
)
STEPS = Metric("driftline_steps", Kind.GAUGE, "Version at which the run ends; absent if it has no end")
TERM = Metric("driftline_term", Kind.GAUGE, "Term of the leading coordinator")
CHECKPOINT = Metric(
    "driftline_checkpoint_version", Kind.GAUGE, "Version of the newest checkpoint; absent before the first"
)
BEGAN = Metric(
    "driftline_began_at_version",
    Kind.GAUGE,
    "Version of the checkpoint from which this process read the ledger; 0 for its beginning",
)
PASSED_OVER = Metric(
    "driftline_checkpoints_passed_over_total",
    Kind.COUNTER,
    "Checkpoints that this process could not start from: void, or not what they say",
)
ENDED = Metric("driftline_run_ended", Kind.GAUGE, "1 once the ledger holds the end of the run, 0 before")
FAILED = Metric("driftline_run_failed", Kind.GAUGE, "1 if the run ended with a failure, 0 otherwise")
MEMBERS = Metric("driftline_members", Kind.GAUGE, "Workers that are members of the run")
LOSS = Metric("driftline_loss", Kind.GAUGE, "Weighted mean loss of the training batches of the newest version")
EVALUATION = Metric("driftline_evaluation", Kind.GAUGE, "Metric on held-out data, newest measurement", ("metric",))
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
BYTES = Metric(
    "driftline_bytes_total", Kind.COUNTER, "Size of the values of these records, in bytes", ("stream", "direction")
)
SEND_FAILURES = Metric("driftline_send_failures_total", Kind.COUNTER, "Records that Kafka did not acknowledge in time")
UNDECODABLE = Metric(
    "driftline_undecodable_total", Kind.COUNTER, "Records that are not valid records of a run", ("stream",)
)
QUEUE = Metric("driftline_queue_records", Kind.GAUGE, "Records read and not handled yet")
HANDLING = Metric("driftline_handling_seconds", Kind.SUMMARY, "Time to handle one input", ("input",))
LOG_LINES = Metric("driftline_log_lines_total", Kind.COUNTER, "Warnings and errors in the log", ("level",))

# -- a server --------------------------------------------------------------------------------------------------------

PARTITIONS_OWNED = Metric("driftline_partitions_owned", Kind.GAUGE, "Partitions that this server owns")
SHARDS_OWNED = Metric("driftline_shards_owned", Kind.GAUGE, "Shards in these partitions")
REBUILDS = Metric(
    "driftline_rebuilds_total", Kind.COUNTER, "Times that a partition's state was rebuilt from snapshots and deltas"
)
TRIMS = Metric("driftline_trims_total", Kind.COUNTER, "Deletions of deltas that a checkpoint covers", ("outcome",))
APPLIED = Metric(
    "driftline_applied_version", Kind.GAUGE, "Newest version applied to every owned shard; absent without shards"
)
HELD_DELTAS = Metric("driftline_held_deltas", Kind.GAUGE, "Deltas that wait for their version")
HELD_BYTES = Metric("driftline_held_bytes", Kind.GAUGE, "Payload of these deltas, in bytes")
DELTAS_DROPPED = Metric("driftline_deltas_dropped_total", Kind.COUNTER, "Deltas read and not kept", ("reason",))
COORDINATING = Metric("driftline_coordinating", Kind.GAUGE, "1 while this server is the coordinator, 0 otherwise")
LEADERSHIPS = Metric("driftline_leaderships_total", Kind.COUNTER, "Times that this server became the coordinator")
REIGNS = Metric("driftline_reigns_total", Kind.COUNTER, "Old name of driftline_leaderships_total")
STATELESS = Metric(
    "driftline_checkpoints_without_state_total",
    Kind.COUNTER,
    "At the coordinator: checkpoints that no process can start from: their state was too large or too old",
    ("reason",),
)
PENDING = Metric(
    "driftline_pending_contributions",
    Kind.GAUGE,
    "At the coordinator: reported clocks that are not settled, skips included",
)
EVENTS_DROPPED = Metric(
    "driftline_events_dropped_total", Kind.COUNTER, "At the coordinator: events read and not accepted", ("reason",)
)

# -- a worker --------------------------------------------------------------------------------------------------------

CLOCK = Metric("driftline_clock", Kind.GAUGE, "Last clock that this worker used")
MODEL_VERSION = Metric(
    "driftline_model_version", Kind.GAUGE, "Newest version whose parameters this process has; absent before the first"
)
WAITING = Metric(
    "driftline_waiting_ratio", Kind.GAUGE, "Share of its time in which this worker has nothing to compute, 0 to 1"
)
UNSETTLED = Metric(
    "driftline_unsettled_contributions", Kind.GAUGE, "Clocks of this worker that the ledger has not settled"
)
PARAMETERS_DROPPED = Metric(
    "driftline_parameters_dropped_total", Kind.COUNTER, "Parameter records read and not used", ("reason",)
)

METRICS = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
