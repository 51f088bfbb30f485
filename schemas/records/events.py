"""Events: what members report to the coordinator, repeated until their effect is in the ledger."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from driftline.schemas.records.identity import GroupId
from driftline.schemas.records.sample_range import SampleRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A worker offers to start the run: settings and layout as canonical JSON, digests of its version-0 snapshots."""

    run: bytes
    worker: str
    incarnation: bytes
    config: str
    layout: str
    shards: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A worker holds parameters of ``version`` and asks to be a member."""

    run: bytes
    worker: str
    incarnation: bytes
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A member is alive. ``role`` is ``worker``, ``server`` or ``evaluator``."""

    run: bytes
    member: str
    incarnation: bytes
    role: str
    version: int
    clock: int
    waiting_share: float
    counters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """A group's delta of one clock is written. ``root`` is SHA-256 over the digests of its deltas in shard order.

    ``weight`` is the loss denominator (usually the number of samples), ``cursor`` the number of batches or steps of its
    process so far, those of this clock included. ``learning_rates`` has one value a parameter group, as the script's
    optimizer had them at the step; empty in a run whose schedule decides them. ``samples`` are those that the gradient
    is made of, as far as the ledger leases them.
    """

    run: bytes
    group: GroupId
    clock: int
    base_version: int
    base_head: bytes
    weight: float
    loss: float
    cursor: int
    shards: int
    root: bytes
    learning_rates: tuple[float, ...] = ()
    samples: tuple[SampleRange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """A group spends a clock without a delta: no data, or an overflow, which discards its ``samples``."""

    run: bytes
    group: GroupId
    clock: int
    base_version: int
    base_head: bytes
    cursor: int
    reason: str
    samples: tuple[SampleRange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """A worker goes away on purpose."""

    run: bytes
    worker: str
    incarnation: bytes
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """A command asks for the end of the run; the coordinator ends it at the head version, once that is published."""

    run: bytes
    sender: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardReceipt:
    """A server holds this delta, whole and finite, at this place of the log."""

    shard: int
    partition: int
    offset: int
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A server has checked the deltas of one contribution that it owns. A non-empty ``refusal`` says why not."""

    run: bytes
    server: str
    incarnation: bytes
    group: GroupId
    clock: int
    shards: tuple[ShardReceipt, ...]
    refusal: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPosition:
    """The next offset that a server will read of a partition that it owns."""

    partition: int
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardDigest:
    """Digests of one shard at a version: of masters and moments, and of masters alone."""

    shard: int
    version: int
    state: bytes
    masters: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """What a server owns and has applied; digests of its shards at publish points. ``failure`` ends the run."""

    run: bytes
    server: str
    incarnation: bytes
    version: int
    head: bytes
    partitions: tuple[PartitionPosition, ...]
    shards: tuple[ShardDigest, ...]
    failure: str
    counters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPlace:
    """One tensor of one shard in the snapshots: the digest of its record, and an offset at or before it.

    A snapshot may be written more than once, and compaction keeps the last copy: reading from the offset on finds it.
    """

    shard: int
    tensor: str
    offset: int
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotReport:
    """Every tensor of one partition at a version is in the snapshots, acknowledged by all in-sync replicas.

    No delta of the partition before ``floor`` is needed to go on from the version.
    """

    run: bytes
    server: str
    incarnation: bytes
    version: int
    head: bytes
    partition: int
    floor: int
    places: tuple[SnapshotPlace, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndecodableReport:
    """Bytes in the log that are no record; they stay where they are, the reader goes on."""

    run: bytes
    reader: str
    stream: str
    partition: int
    offset: int
    reason: str
    first_bytes: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """The coordinator's tick: liveness counts ticks that were read, never seconds."""

    run: bytes
    term: int
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationReport:
    """A reader evaluated a published version."""

    run: bytes
    evaluator: str
    incarnation: bytes
    version: int
    head: bytes
    metrics: Mapping[str, float]
