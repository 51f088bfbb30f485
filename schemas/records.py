"""Every record of a run, as frozen dataclasses.

One class here is one file in ``avsc/`` with the same fields in the same order; the codec refuses to load otherwise.
Hashes are SHA-256 (32 bytes), UUIDs 16 bytes. ``payload`` fields hold little-endian tensors as raw bytes.

Three families, by the stream that carries them:

- payload records (`Delta`, `Parameters`, `Snapshot`): tensors, each with its own digest as the first field;
- events: what members tell the coordinator; repeated until their effect is in the ledger;
- ledger records: decisions, each with the term that took it and the hash of everything before it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

PayloadBytes: TypeAlias = bytes | memoryview | npt.NDArray[np.uint8]

NO_HASH = bytes(32)
"""The head before the first ledger record."""

NO_RUN = bytes(16)
"""The run UUID in events that are sent before the run has one."""


@dataclass(frozen=True, slots=True, order=True)
class GroupId:
    """A replica group: the ledger offset and the index in that record of the `Join` that made it; never used again."""

    offset: int
    index: int

    def __str__(self) -> str:
        return f"{self.offset}.{self.index}"


# -- payload records -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """One shard of one contribution. ``presence`` has one bit a segment piece of the shard, least significant first."""

    digest: bytes
    group: GroupId
    clock: int
    shard: int
    base_version: int
    codec: str
    elements: int
    presence: bytes
    payload: PayloadBytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """One shard of the master weights at a published version. ``head`` is the ledger's head hash at that version."""

    digest: bytes
    version: int
    head: bytes
    shard: int
    codec: str
    elements: int
    state_digest: bytes
    payload: PayloadBytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One tensor of one shard at a version: ``tensor`` is ``master`` or the name of an optimizer moment.

    ``head`` is the ledger's head hash at that version, and `NO_HASH` for version 0, which precedes the ledger.
    """

    digest: bytes
    version: int
    head: bytes
    shard: int
    tensor: str
    codec: str
    elements: int
    payload: PayloadBytes


# -- events ----------------------------------------------------------------------------------------------------------


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
    """A member lives. ``role`` is ``worker``, ``server`` or ``evaluator``."""

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

    ``weight`` is the loss denominator (usually the number of samples), ``cursor`` the group's position in its data.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """A group spends a clock without a delta: no data, or an overflow."""

    run: bytes
    group: GroupId
    clock: int
    base_version: int
    base_head: bytes
    cursor: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """A worker goes away on purpose."""

    run: bytes
    worker: str
    incarnation: bytes
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
    """A server's word on the deltas of one contribution that it owns. A non-empty ``refusal`` says why not."""

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
    """The coordinator's beat: liveness counts ticks read, never seconds passed."""

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


# -- ledger records --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TermStart:
    """A coordinator begins to reign. Valid when its term is higher than the current one, whatever its parent."""

    term: int
    parent: bytes
    nonce: bytes
    coordinator: str
    incarnation: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStart:
    """The first complete proposal becomes the run: version 0 exists."""

    term: int
    parent: bytes
    run: bytes
    name: str
    config: str
    layout: str
    layout_fingerprint: bytes
    partitions: int
    shards: tuple[bytes, ...]
    proposer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A worker becomes a replica group of its own, at pace = head."""

    worker: str
    incarnation: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A group is no longer a member; its pending contributions are discarded."""

    group: GroupId
    worker: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Groups come and go. Removals take effect first; ``raised`` is added to every remaining group's pace."""

    term: int
    parent: bytes
    joins: tuple[Join, ...]
    removals: tuple[Removal, ...]
    raised: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One (group, clock) that a version settles. ``kind`` is ``delta`` or ``skip`` (coefficient 0, no delta read)."""

    group: GroupId
    clock: int
    kind: str
    base_version: int
    staleness: int
    weight: float
    loss: float
    cursor: int
    coefficient: float
    root: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDigest:
    """Digests of the whole model at a version: of the state, and of the parameters alone."""

    version: int
    state: bytes
    parameters: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A new version of the model: which deltas, with which fp32 coefficients, learning rates and moment rate.

    ``learning_rates`` has one value a parameter group; ``rho`` damps moment rates; ``positions`` holds, a partition,
    the first offset behind every delta used (-1: none); ``publish`` makes it a publish point; ``states`` holds digests
    of earlier publish points that became known since the last record.
    """

    term: int
    parent: bytes
    version: int
    uses: tuple[Use, ...]
    learning_rates: tuple[float, ...]
    rho: float
    positions: tuple[int, ...]
    publish: bool
    states: tuple[StateDigest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """The head, idle or final, becomes a publish point."""

    term: int
    parent: bytes
    version: int
    states: tuple[StateDigest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A contribution is not used and spends its clock."""

    term: int
    parent: bytes
    group: GroupId
    clock: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Metrics of a published version, as a reader measured them."""

    term: int
    parent: bytes
    version: int
    evaluator: str
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """The run is over at ``version``; ``failure`` is empty when it reached its goal or was stopped by a command."""

    term: int
    parent: bytes
    version: int
    reason: str
    failure: str
    states: tuple[StateDigest, ...]


PayloadRecord: TypeAlias = Delta | Parameters | Snapshot
Event: TypeAlias = (
    Proposal
    | Ready
    | Heartbeat
    | Contribution
    | Skip
    | Leave
    | Receipt
    | ServerState
    | UndecodableReport
    | Tick
    | EvaluationReport
)
LedgerRecord: TypeAlias = TermStart | RunStart | Membership | Version | Publish | Rejection | Evaluation | RunEnd
AnyRecord: TypeAlias = PayloadRecord | Event | LedgerRecord
