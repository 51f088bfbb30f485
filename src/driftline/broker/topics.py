"""The five topics of a run: their names, and how long the broker keeps their records.

A name is ``driftline.<run>.<stream>``. Another prefix is possible where a cluster assigns name spaces. Run and stream
never contain a dot, so a name has one reading only.
"""

import re
from enum import StrEnum

from driftline.broker.port import TopicSpec
from driftline.errors import UsageError

PREFIX = "driftline"
MAX_TOPIC_CHARS = 249
"""Kafka's own limit: a partition's folder, ``<topic>-<partition>``, must fit a file name of 255 bytes."""

_LEGAL_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_LEGAL_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_DAY_MS = 86_400_000
_MIB = 1 << 20


class Stream(StrEnum):
    """The content of a topic of a run."""

    DELTAS = "deltas"
    EVENTS = "events"
    LEDGER = "ledger"
    PARAMETERS = "parameters"
    SNAPSHOTS = "snapshots"


SHARDED = frozenset({Stream.DELTAS, Stream.PARAMETERS, Stream.SNAPSHOTS})
"""Streams with one partition for each slot of shards; the others have one partition, totally ordered."""

# For every stream: the broker sets the timestamps, and a replica without all acknowledged records never leads.
_COMMON = {
    # Kafka's own default; a cluster may have a lower one.
    "max.message.bytes": "1048588",
    "message.timestamp.type": "LogAppendTime",
    "unclean.leader.election.enable": "false",
}
_KEEP_ALL = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
_POLICY: dict[Stream, dict[str, str]] = {
    # Trimming frees whole segments only, so segments are far smaller than Kafka's default of 1 GiB.
    Stream.DELTAS: {**_KEEP_ALL, "segment.bytes": str(128 * _MIB)},
    Stream.LEDGER: _KEEP_ALL,
    # By time only: with a size limit one busy member would push out the events of others.
    Stream.EVENTS: {"cleanup.policy": "delete", "retention.ms": str(7 * _DAY_MS), "retention.bytes": "-1"},
    # Readers need only the newest versions: one that falls behind starts from a checkpoint.
    Stream.PARAMETERS: {
        "cleanup.policy": "delete",
        "retention.ms": str(7 * _DAY_MS),
        "retention.bytes": str(512 * _MIB),
        "segment.bytes": str(64 * _MIB),
    },
    # Kafka compacts only closed segments. Small ones, closed within the hour, let tombstones free their space; the lag
    # lets a new process finish reading a checkpoint that was just replaced.
    Stream.SNAPSHOTS: {
        "cleanup.policy": "compact",
        "segment.bytes": str(64 * _MIB),
        "segment.ms": str(_DAY_MS // 24),
        "min.cleanable.dirty.ratio": "0.1",
        "min.compaction.lag.ms": "60000",
    },
}


def check_run_name(run: str, prefix: str = PREFIX) -> str:
    """Return ``run`` if it can name the topics of a run.

    A dot is refused although Kafka allows it: Kafka's metrics write "." as "_", so it refuses "a.b" beside "a_b".

    Raises:
        UsageError: names the value, the rule and an example.
    """
    longest = MAX_TOPIC_CHARS - max(len(topic_name("", stream, prefix)) for stream in Stream)
    if not _LEGAL_RUN.fullmatch(run):
        raise UsageError(
            f"run name {run!r} is not usable: it must start with a letter or digit (A-Z, a-z, 0-9) and go on with "
            f'letters, digits, "-" and "_" only; an example is "digits-2"'
        )
    if len(run) > longest:
        raise UsageError(
            f"run name {run[:32]!r}… has {len(run)} characters: at most {longest} fit, because Kafka limits a topic "
            f'name to {MAX_TOPIC_CHARS}; an example is "digits-2"'
        )
    return run


def check_prefix(prefix: str) -> str:
    """Return ``prefix`` if it can begin topic names.

    Raises:
        UsageError: names the value, the rule and an example.
    """
    if not _LEGAL_PREFIX.fullmatch(prefix) or prefix.endswith("."):
        raise UsageError(
            f"topic prefix {prefix!r} is not usable: it must start with a letter or digit, go on with letters, digits, "
            f'".", "-" and "_" only, and not end with "."; an example is "team-a.driftline"'
        )
    return prefix


def topic_name(run: str, stream: Stream, prefix: str = PREFIX) -> str:
    """Return the name of one topic of a run; checks nothing."""
    return f"{prefix}.{run}.{stream.value}"


def parse_topic(name: str, prefix: str = PREFIX) -> tuple[str, Stream] | None:
    """Return run and stream of a topic name, or None if it is not a topic of a run."""
    front, _, stream = name.rpartition(".")
    before, _, run = front.rpartition(".")
    if before != prefix or stream not in set(Stream) or not _LEGAL_RUN.fullmatch(run):
        return None
    return run, Stream(stream)


def run_topics(run: str, partitions: int, prefix: str = PREFIX, replication: int = 0) -> list[TopicSpec]:
    """Return the topics of a run, with the retention that each stream needs.

    Args:
        run: name of the run.
        partitions: number of partitions of the sharded streams.
        prefix: what the topic names begin with.
        replication: copies of each partition; 0 means the broker's default.

    Raises:
        UsageError: a name or number is not valid.
    """
    check_prefix(prefix)
    check_run_name(run, prefix)
    if partitions < 1:
        raise UsageError(f"a run cannot have {partitions} partitions: give 1 or more, for example 4")
    return [
        TopicSpec(
            name=topic_name(run, stream, prefix),
            partitions=partitions if stream in SHARDED else 1,
            config={**_COMMON, **_POLICY[stream]},
            replication=replication,
        )
        for stream in Stream
    ]
