"""Ledger records: decisions, each with the term that took it and the hash of everything before it."""

from collections.abc import Mapping
from dataclasses import dataclass

from driftline.schemas.records.events import SnapshotPlace
from driftline.schemas.records.identity import GroupId
from driftline.schemas.records.ledger_state import FrozenState, StateDigest
from driftline.schemas.records.sample_range import SampleRange


@dataclass(frozen=True, slots=True, kw_only=True)
class TermStart:
    """A coordinator takes the leadership of a term. Valid when its term is higher than the current one."""

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
class Grant:
    """Samples that a group may read from now on."""

    group: GroupId
    samples: SampleRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Free samples are leased to groups: no other group may read them."""

    term: int
    parent: bytes
    grants: tuple[Grant, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One (group, clock) that a version settles. ``kind`` is ``delta`` or ``skip`` (coefficient 0, no delta read).

    ``learning_rates`` are those that the contribution asked for, in a run whose scripts decide them; empty in others.
    ``samples`` are used up: consumed by a ``delta``, discarded by a ``skip``.
    """

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
    learning_rates: tuple[float, ...] = ()
    samples: tuple[SampleRange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A new version of the model: which deltas, with which fp32 coefficients, learning rates and moment rate.

    ``learning_rates`` has one value a parameter group; ``rho`` damps moment rates; ``positions`` holds, a partition,
    the first offset behind every delta used (-1: none); ``publish`` makes it a publish point; ``states`` holds digests
    of earlier publish points that became known since the last record. ``buffers_of`` is the index of the use whose
    buffers the version takes over (-1: none, they stay as they are).
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
    buffers_of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """The head version, idle or final, becomes a publish point."""

    term: int
    parent: bytes
    version: int
    states: tuple[StateDigest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A contribution is not used and spends its clock. Of its samples those in ``burned`` are discarded."""

    term: int
    parent: bytes
    group: GroupId
    clock: int
    reason: str
    burned: tuple[SampleRange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The snapshots of a version become official: servers rebuild their state from them.

    ``floors`` holds, a partition, the first delta that may still be needed to go on from ``version``; ``places`` has
    every tensor of every shard, by shard and tensor. ``state`` is what the ledger adds up to at ``version``: one, or
    none where an earlier release wrote the record, or it would not fit.
    """

    term: int
    parent: bytes
    version: int
    floors: tuple[int, ...]
    places: tuple[SnapshotPlace, ...]
    state: tuple[FrozenState, ...] = ()


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
