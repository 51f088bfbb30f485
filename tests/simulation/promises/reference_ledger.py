"""The ledger folded once more, by rules written down apart from ``driftline.consumers``: what readers are held to."""

import hashlib
from dataclasses import dataclass

from driftline.schemas.records import (
    NO_HASH,
    Checkpoint,
    GroupId,
    Lease,
    LedgerRecord,
    Membership,
    Publish,
    Rejection,
    RunEnd,
    RunStart,
    TermStart,
    Version,
)
from driftline.schemas.run.config import RunConfig
from tests.simulation.promises.reference_samples import CONSUMED, DISCARDED, ReferenceSamples, Violation, require

__all__ = ["Member", "Moment", "ReferenceLedger", "Violation", "require"]

LAST_LEAP = 1 << 62
"""The highest term that may leave others out."""


@dataclass(slots=True)
class Member:
    """A live group: what the ledger says of it."""

    worker: str
    incarnation: bytes
    pace: int
    clock: int = 0


@dataclass(frozen=True, slots=True)
class Moment:
    """The ledger before one of its offsets: what a reader standing there must know."""

    head: bytes
    term: int
    version: int
    leader: TermStart | None
    started: bool
    ended: bool


class ReferenceLedger:
    """Every record of the ledger, judged in order.

    Attributes:
        moments: one an offset, and one for the end.
        version_heads: head behind each version's record.
        members: live groups now.
        gone: groups that were removed.
        states: versions whose digests it holds.
        rejections: every contribution that is not used.
        joined: worker of every join, in order.
        checkpoint: the last one.
        entry: the last one with a state, where newcomers begin.
        samples: the fate of each.
    """

    def __init__(self, config: RunConfig) -> None:
        self.bounds = config.consistency
        self.samples = ReferenceSamples(config.data)
        self.moments = [Moment(NO_HASH, 0, 0, None, started=False, ended=False)]
        self.version_heads: list[bytes] = []
        self.members: dict[GroupId, Member] = {}
        self.gone: dict[GroupId, str] = {}
        self.joined: list[str] = []
        self.start: RunStart | None = None
        self.end: RunEnd | None = None
        self.checkpoint: Checkpoint | None = None
        self.entry: Checkpoint | None = None
        self.settled: dict[tuple[GroupId, int], int] = {}
        self.states: set[int] = set()
        self.rejections: list[Rejection] = []

    @property
    def now(self) -> Moment:
        """The ledger's end."""
        return self.moments[-1]

    def append(self, record: object, value: bytes | None) -> LedgerRecord | None:
        """Judge the next record; return it if it counts.

        Raises:
            Violation: it counts and breaks a promise.
        """
        valid = self._counts(record)
        if valid is None or value is None:
            self.moments.append(self.now)
            return None
        head = hashlib.sha256(self.now.head + value).digest()
        self._fold(valid, len(self.moments) - 1, head)
        self.moments.append(
            Moment(
                head=head,
                term=valid.term,
                version=max(0, len(self.version_heads) - 1),
                leader=valid if isinstance(valid, TermStart) else self.now.leader,
                started=self.start is not None,
                ended=self.end is not None,
            )
        )
        return valid

    def _counts(self, record: object) -> LedgerRecord | None:
        if isinstance(record, TermStart):
            next_one = record.term == self.now.term + 1
            return record if next_one or self.now.term < record.term <= LAST_LEAP else None
        if isinstance(record, LedgerRecord) and record.term == self.now.term and record.parent == self.now.head:
            return record
        return None

    def _fold(self, record: LedgerRecord, offset: int, head: bytes) -> None:
        if isinstance(record, TermStart):
            return
        require(self.end is None, f"{type(record).__name__} after RunEnd")
        require((self.start is None) == isinstance(record, RunStart), f"{type(record).__name__} out of place")
        if isinstance(record, Version | Publish | RunEnd):
            self.states.update(state.version for state in record.states)
        match record:
            case RunStart():
                self.start = record
                self.version_heads.append(head)
            case Membership():
                self._membership(record, offset)
            case Lease():
                self._lease(record)
            case Version():
                self._version(record, head)
            case Publish():
                require(
                    record.version == self.now.version, f"version {record.version} is published at {self.now.version}"
                )
            case Rejection():
                self._settle(record.group, record.clock, -1)
                self.samples.use(record.group, record.burned, DISCARDED)
                self.rejections.append(record)
            case Checkpoint() | RunEnd():
                self._conclude(record)

    def _conclude(self, record: Checkpoint | RunEnd) -> None:
        if isinstance(record, RunEnd):
            self.end = record
            return
        newest = -1 if self.checkpoint is None else self.checkpoint.version
        require(newest < record.version <= self.now.version, f"checkpoint {record.version} after {newest}")
        self.checkpoint = record
        self.entry = record if record.state else self.entry

    def _membership(self, record: Membership, offset: int) -> None:
        for removal in record.removals:
            require(removal.group in self.members, f"removal of {removal.group}, which is no member")
            del self.members[removal.group]
            self.gone[removal.group] = removal.reason
            self.samples.free(removal.group)
        for member in self.members.values():
            member.pace += record.raised
        names = {member.worker for member in self.members.values()}
        for index, join in enumerate(record.joins):
            require(join.worker not in names, f"{join.worker} joins while it is a member")
            names.add(join.worker)
            self.joined.append(join.worker)
            self.members[GroupId(offset, index)] = Member(join.worker, join.incarnation, self.now.version)

    def _lease(self, record: Lease) -> None:
        for grant in record.grants:
            require(grant.group in self.members, f"a lease for {grant.group}, which is no member")
            self.samples.lease(grant.group, (grant.samples,))

    def _version(self, record: Version, head: bytes) -> None:
        require(record.version == self.now.version + 1, f"version {record.version} after {self.now.version}")
        for use in record.uses:
            require(use.staleness == self.now.version - use.base_version, f"staleness of {use.group}/{use.clock}")
            self._settle(use.group, use.clock, record.version)
            self.samples.use(use.group, use.samples, CONSUMED if use.kind == "delta" else DISCARDED)
        order = [(self.members[use.group].worker, use.clock) for use in record.uses]
        require(order == sorted(order), f"version {record.version} sums in another order than worker name, clock")
        self.version_heads.append(head)
        if self.bounds.drop_slowest:
            for member in self.members.values():
                member.pace = max(member.pace, record.version - self.bounds.staleness - 1)

    def _settle(self, group: GroupId, clock: int, version: int) -> None:
        member = self.members.get(group)
        require(member is not None, f"clock {clock} of group {group} settles, which is no member")
        if member is not None:
            require(clock == member.clock + 1, f"clock {clock} of group {group} settles after {member.clock}")
            member.clock += 1
            member.pace += 1
        self.settled[group, clock] = version
