"""The fold of a ledger at one version, as a `Checkpoint` carries it: a reader may start there and fold on behind it.

It is canonical: every reader that has folded the ledger so far dumps the same state to the same bytes. It has no
settings and no layout, which may be large: it names the record of the ledger that is the start of the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from driftline.schemas.records.identity import GroupId


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenGroup:
    """A live group: see `driftline.ledger.run_state.Group`."""

    group: GroupId
    worker: str
    incarnation: bytes
    settled_pace: int
    settled_clock: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerGroup:
    """A group that was removed: its incarnation never joins again."""

    group: GroupId
    worker: str
    incarnation: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    """One row of `driftline.ledger.leases.Leases.dump`: a kind, and what the numbers of that kind mean."""

    kind: int
    first: int
    second: int
    third: int
    fourth: int
    fifth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDigest:
    """Digests of the whole model at a version: of the state, and of the parameters alone."""

    version: int
    state: bytes
    parameters: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenEvaluation:
    """The newest metrics in the ledger."""

    version: int
    evaluator: str
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness:
    """``count`` contributions were used that were ``versions`` versions late."""

    versions: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenTotals:
    """Counts over the whole ledger so far, for people. ``losses`` is the loss of the version, or empty for NaN.

    Records that do not count are not in it: a reader that begins here has not read them.
    """

    contributions: Mapping[str, int]
    skips: Mapping[str, int]
    rejections: Mapping[str, int]
    rejection_reasons: Mapping[str, int]
    staleness: tuple[Lateness, ...]
    samples: float
    losses: tuple[float, ...]
    published: int
    valid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenState:
    """The fold of a ledger up to, and with, the record of a version.

    Attributes:
        next_offset: of the ledger, behind that record.
        start_offset: of the `RunStart`.
        start_head: of the ledger behind the `RunStart`.
        term: in which the version was written.
        head: of the ledger behind the version's record.
        heads: behind the records of versions before it, oldest first: as many as contributions may still name.
        groups: that are members, in order.
        former: groups that were, in order; the newest.
        first_names: workers that the run began with, in order.
        leases: who may read which samples.
        deltas_end: a partition, the first offset behind every delta that the ledger has named.
        last_publish: the newest publish point.
        digests: that the ledger holds of the newest such version, if there is one.
        evaluations: of the newest version that was measured, if there is one.
        totals: for people.
    """

    next_offset: int
    start_offset: int
    start_head: bytes
    term: int
    head: bytes
    heads: tuple[bytes, ...]
    groups: tuple[FrozenGroup, ...]
    former: tuple[FormerGroup, ...]
    first_names: tuple[str, ...]
    leases: tuple[LeaseRow, ...]
    deltas_end: tuple[int, ...]
    last_publish: int
    digests: tuple[StateDigest, ...]
    evaluations: tuple[FrozenEvaluation, ...]
    totals: FrozenTotals
