"""Every record of a run, as frozen dataclasses.

One class here is one file in ``avsc/`` with the same fields in the same order; the codec refuses to load otherwise.
Hashes are SHA-256 (32 bytes), UUIDs 16 bytes. ``payload`` fields hold little-endian tensors as raw bytes.

Three families, by the stream that carries them: `payload`, `events` and `ledger`.
"""

from typing import TypeAlias

from driftline.schemas.records.events import (
    Contribution,
    EvaluationReport,
    Heartbeat,
    Leave,
    PartitionPosition,
    Proposal,
    Ready,
    Receipt,
    ServerState,
    ShardDigest,
    ShardReceipt,
    Skip,
    SnapshotPlace,
    SnapshotReport,
    StopRequest,
    Tick,
    UndecodableReport,
)
from driftline.schemas.records.identity import NO_HASH, NO_RUN, GroupId
from driftline.schemas.records.ledger import (
    Checkpoint,
    Evaluation,
    Grant,
    Join,
    Lease,
    Membership,
    Publish,
    Rejection,
    Removal,
    RunEnd,
    RunStart,
    TermStart,
    Use,
    Version,
)
from driftline.schemas.records.ledger_state import (
    FormerGroup,
    FrozenEvaluation,
    FrozenGroup,
    FrozenState,
    FrozenTotals,
    Lateness,
    LeaseRow,
    StateDigest,
)
from driftline.schemas.records.payload import Delta, Parameters, PayloadBytes, Snapshot
from driftline.schemas.records.sample_range import SampleRange

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
    | StopRequest
    | SnapshotReport
)
LedgerRecord: TypeAlias = (
    TermStart | RunStart | Membership | Lease | Version | Publish | Rejection | Evaluation | Checkpoint | RunEnd
)
AnyRecord: TypeAlias = PayloadRecord | Event | LedgerRecord

__all__ = [
    "NO_HASH",
    "NO_RUN",
    "AnyRecord",
    "Checkpoint",
    "Contribution",
    "Delta",
    "Evaluation",
    "EvaluationReport",
    "Event",
    "FormerGroup",
    "FrozenEvaluation",
    "FrozenGroup",
    "FrozenState",
    "FrozenTotals",
    "Grant",
    "GroupId",
    "Heartbeat",
    "Join",
    "Lateness",
    "Lease",
    "LeaseRow",
    "Leave",
    "LedgerRecord",
    "Membership",
    "Parameters",
    "PartitionPosition",
    "PayloadBytes",
    "PayloadRecord",
    "Proposal",
    "Publish",
    "Ready",
    "Receipt",
    "Rejection",
    "Removal",
    "RunEnd",
    "RunStart",
    "SampleRange",
    "ServerState",
    "ShardDigest",
    "ShardReceipt",
    "Skip",
    "Snapshot",
    "SnapshotPlace",
    "SnapshotReport",
    "StateDigest",
    "StopRequest",
    "TermStart",
    "Tick",
    "UndecodableReport",
    "Use",
    "Version",
]
