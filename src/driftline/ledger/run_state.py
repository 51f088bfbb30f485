"""The run as the ledger records it: fold(ledger). Every process that reads the ledger holds one.

A record that the chain accepts but that contradicts what came before it is no accident of timing: a coordinator never
writes one. It raises `IntegrityError`, so that no reader goes on with a state of its own.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from driftline.errors import ConfigError, IntegrityError, Undecodable
from driftline.ledger import contradictions
from driftline.ledger.chain import Chain
from driftline.ledger.dump import FORMER_KEPT, difference, dump, heads_kept
from driftline.ledger.leases import Leases
from driftline.ledger.policy import floor_of_slowest
from driftline.ledger.rejection_reasons import reason_word
from driftline.schemas.codec import decode
from driftline.schemas.model.layout import Layout, layout_from_json
from driftline.schemas.records import (
    NO_HASH,
    Checkpoint,
    Evaluation,
    FrozenState,
    GroupId,
    Join,
    Lease,
    LedgerRecord,
    Membership,
    Publish,
    Rejection,
    RunEnd,
    RunStart,
    StateDigest,
    TermStart,
    Version,
)
from driftline.schemas.records.sample_range import Samples, samples_problem
from driftline.schemas.run.config import RunConfig
from driftline.schemas.run.config_json import run_config_from_json

DUMPS_KEPT = 16
"""Snapshot points behind the last checkpoint whose states are remembered: a checkpoint of an earlier one has none."""


@dataclass(slots=True)
class Group:
    """A live replica group.

    Attributes:
        settled_pace: entry pace + settled clocks + raises, in versions: the ledger-visible part of its pace.
        settled_clock: the last clock that the ledger settled.
    """

    id: GroupId
    worker: str
    incarnation: bytes
    settled_pace: int
    settled_clock: int = 0


@dataclass(frozen=True, slots=True)
class Folded:
    """One ledger record, read: ``record`` is None for a void or undecodable one."""

    offset: int
    value: bytes
    record: LedgerRecord | None


@dataclass(slots=True)
class Totals:
    """Counts over the whole ledger, for people."""

    contributions: Counter[str] = field(default_factory=Counter)
    skips: Counter[str] = field(default_factory=Counter)
    rejections: Counter[str] = field(default_factory=Counter)
    rejection_reasons: Counter[str] = field(default_factory=Counter)
    staleness: Counter[int] = field(default_factory=Counter)
    samples: float = 0.0
    published: int = 0
    undecodable: int = 0


class RunState:
    """Everything that the ledger decides, up to ``next_offset``.

    Attributes:
        has_begun: whether the ledger holds the start of the run. Before it `start`, `config`, `layout` and `leases` do
            not exist: to read them is an error of the caller.
        began_at: the version that was restored (`driftline.ledger.restore`); 0 for a fold from the beginning.
        passed_over: checkpoints that were looked at and not begun at, because they do not count or cannot be.
        dumps: states at snapshot points that the last checkpoint does not cover, the newest `DUMPS_KEPT`.
    """

    start: RunStart
    config: RunConfig
    layout: Layout
    leases: Leases

    def __init__(self) -> None:
        self.chain = Chain()
        self.next_offset = 0
        self.began_at = 0
        self.passed_over = 0
        self.has_begun = False
        self.start_offset = -1
        self.start_head = NO_HASH
        self.version = 0
        self.heads: dict[int, bytes] = {}
        self.groups: dict[GroupId, Group] = {}
        self.leases_of = Leases
        self.removed: dict[GroupId, str] = {}
        self.joined: dict[tuple[str, bytes], GroupId] = {}
        self.first_names: tuple[str, ...] = ()
        self.versions: dict[int, Version] = {}
        self.used_at: dict[tuple[GroupId, int], int] = {}
        self.deltas_end: dict[int, int] = {}
        self.last_publish = 0
        self.publish_points: set[int] = {0}
        self.states: dict[int, StateDigest] = {}
        self.evaluations: dict[int, Evaluation] = {}
        self.checkpoint: Checkpoint | None = None
        self.superseded: Checkpoint | None = None
        self.dump: Callable[[RunState], FrozenState] = dump
        self.dumps: dict[int, FrozenState] = {}
        self.ended: RunEnd | None = None
        self.loss = float("nan")
        self.totals = Totals()

    # -- reading -----------------------------------------------------------------------------------------------------

    def read(self, offset: int, value: bytes | None) -> Folded:
        """Fold the record at ``offset``; void and undecodable ones change nothing but their counts.

        Raises:
            IntegrityError: a valid record contradicts the ledger before it.
        """
        self.next_offset = offset + 1
        try:
            record = decode(value)
        except Undecodable:
            self.totals.undecodable += 1
            return Folded(offset, value or b"", None)
        if not isinstance(record, LedgerRecord) or not self.chain.accept(record, value or b""):
            return Folded(offset, value or b"", None)
        self._apply(offset, record)
        return Folded(offset, value or b"", record)

    def _apply(self, offset: int, record: LedgerRecord) -> None:
        if isinstance(record, TermStart):
            return
        if isinstance(record, RunStart):
            self.begin(offset, record)
            return
        if not self.has_begun or self.ended is not None:
            raise IntegrityError(f"ledger offset {offset}: {type(record).__name__} outside of a running run")
        match record:
            case Membership():
                self._membership(offset, record)
            case Lease():
                self._lease(offset, record)
            case Version():
                self._version(offset, record)
            case Publish():
                self._publish(offset, record)
            case Rejection():
                self._rejection(offset, record)
            case Evaluation() | Checkpoint() | RunEnd():
                self._conclude(offset, record)

    # -- records -----------------------------------------------------------------------------------------------------

    def begin(self, offset: int, record: RunStart) -> None:
        """Take over the start of the run, behind which the head stands.

        Raises:
            IntegrityError: there is one already, or it contradicts itself.
        """
        if self.has_begun:
            raise IntegrityError(f"ledger offset {offset}: a second RunStart")
        try:
            config, layout = run_config_from_json(record.config), layout_from_json(record.layout)
        except ConfigError as error:
            raise IntegrityError(f"ledger offset {offset}: a RunStart that cannot be read: {error}") from None
        _refuse(offset, record, contradictions.in_start(record, config, layout))
        self.start, self.config, self.layout = record, config, layout
        self.leases = self.leases_of(config)
        self.has_begun = True
        self.start_offset, self.start_head = offset, self.chain.head
        self.heads[0] = self.chain.head

    def _membership(self, offset: int, record: Membership) -> None:
        for removal in record.removals:
            if self.groups.pop(removal.group, None) is None:
                raise IntegrityError(f"ledger offset {offset}: removal of group {removal.group}, which is no member")
            self.removed[removal.group] = removal.reason
            self.leases.leave(removal.group)
        _refuse(offset, record, "" if record.raised >= 0 else f"paces are raised by {record.raised}")
        for group in self.groups.values():
            group.settled_pace += record.raised
        if not self.first_names and record.joins:
            self.first_names = tuple(sorted(join.worker for join in record.joins))
        for index, join in enumerate(record.joins):
            self._join(GroupId(offset, index), join)

    def _join(self, group_id: GroupId, join: Join) -> None:
        if self.worker_group(join.worker) is not None:
            raise IntegrityError(f"ledger offset {group_id.offset}: worker {join.worker!r} joins while it is a member")
        self.groups[group_id] = Group(group_id, join.worker, join.incarnation, settled_pace=self.version)
        self.joined[join.worker, join.incarnation] = group_id
        self.leases.enter(group_id, join.worker)

    def _lease(self, offset: int, record: Lease) -> None:
        for grant in record.grants:
            _refuse(offset, record, self.leases.grant_problem(grant))
            self.leases.grant(grant)

    def _version(self, offset: int, record: Version) -> None:
        if record.version != self.version + 1:
            raise IntegrityError(f"ledger offset {offset}: version {record.version} follows version {self.version}")
        _refuse(offset, record, contradictions.in_version(record, self.config, self.layout))
        for use in record.uses:
            self._settle(offset, use.group, use.clock)
            self.used_at[use.group, use.clock] = record.version
            self._use_up(offset, record, use.group, use.samples, discarded=use.kind != "delta")
        self.version = record.version
        self.versions[record.version] = record
        self.heads[record.version] = self.chain.head
        self._raise_slowest()
        self._raise_end(record.positions)
        self.totals.published += record.publish
        if record.publish:
            self.publish_points.add(record.version)
            self.last_publish = record.version
        self._states(record.states)
        self._count(record)
        self._keep_dump()

    def _publish(self, offset: int, record: Publish) -> None:
        if record.version != self.version:
            raise IntegrityError(f"ledger offset {offset}: version {record.version} is published at {self.version}")
        self.publish_points.add(record.version)
        self.last_publish = record.version
        self._states(record.states)

    def _conclude(self, offset: int, record: Evaluation | Checkpoint | RunEnd) -> None:
        match record:
            case Evaluation():
                self.evaluations[record.version] = record
            case Checkpoint():
                self._checkpoint(offset, record)
            case RunEnd():
                self._states(record.states)
                self.ended = record

    def _checkpoint(self, offset: int, record: Checkpoint) -> None:
        before = 0 if self.checkpoint is None else self.checkpoint.version
        if not before < record.version <= self.version:
            raise IntegrityError(
                f"ledger offset {offset}: a Checkpoint of version {record.version} behind one of {before}, at version "
                f"{self.version}"
            )
        _refuse(offset, record, contradictions.in_checkpoint(record, self.config, self.layout))
        if record.state and record.version >= self.began_at:
            _refuse(offset, record, difference(self.dumps.get(record.version), record))
        self.superseded, self.checkpoint = self.checkpoint, record
        self.dumps = {version: one for version, one in self.dumps.items() if version > record.version}
        self._raise_end(record.floors)

    def _keep_dump(self) -> None:
        """Remember the state at a snapshot point, which a checkpoint may carry."""
        if self.config.is_snapshot_point(self.version):
            self.dumps[self.version] = self.dump(self)
            if len(self.dumps) > DUMPS_KEPT:
                del self.dumps[min(self.dumps)]

    def _raise_slowest(self) -> None:
        """Groups that the clock rule no longer waits for do not fall further behind."""
        floor = floor_of_slowest(self.version, self.config.consistency)
        if floor is not None:
            for group in self.groups.values():
                group.settled_pace = max(group.settled_pace, floor)

    def _raise_end(self, positions: Iterable[int]) -> None:
        """Note offsets up to which the deltas were written; -1 for a partition of which nothing is said."""
        for partition, position in enumerate(positions):
            self.deltas_end[partition] = max(position, self.deltas_end.get(partition, 0))

    def _settle(self, offset: int, group_id: GroupId, clock: int) -> None:
        group = self.groups.get(group_id)
        if group is None or clock != group.settled_clock + 1:
            last = "no member" if group is None else f"at clock {group.settled_clock}"
            raise IntegrityError(f"ledger offset {offset}: settles clock {clock} of group {group_id}, which is {last}")
        group.settled_clock = clock
        group.settled_pace += 1

    def _rejection(self, offset: int, record: Rejection) -> None:
        self._settle(offset, record.group, record.clock)
        self._use_up(offset, record, record.group, record.burned, discarded=True)
        self.totals.rejections[self.groups[record.group].worker] += 1
        self.totals.rejection_reasons[reason_word(record.reason)] += 1

    def _use_up(
        self, offset: int, record: Version | Rejection, group: GroupId, samples: Samples, *, discarded: bool
    ) -> None:
        _refuse(offset, record, samples_problem(samples) or self.leases.problem(group, samples))
        self.leases.use(group, samples, discarded=discarded)

    def _states(self, states: Iterable[StateDigest]) -> None:
        for state in states:
            self.states[state.version] = state

    def _count(self, record: Version) -> None:
        weight = loss = 0.0
        for use in record.uses:
            worker = self.groups[use.group].worker
            if use.kind != "delta":
                self.totals.skips[worker] += 1
                continue
            self.totals.contributions[worker] += 1
            self.totals.staleness[use.staleness] += 1
            weight += use.weight
            loss += use.weight * use.loss
        self.totals.samples += weight
        if weight > 0:
            self.loss = loss / weight

    # -- forgetting --------------------------------------------------------------------------------------------------

    def forget_before(self, version: int) -> None:
        """Forget what no process at ``version`` or behind it needs, so that memory stays flat.

        Hashes of versions are kept for some more: contributions name them.
        """
        for table in (self.versions, self.states, self.evaluations):
            newest = max(table, default=0)
            for known in [known for known in table if known < version and known != newest]:
                del table[known]
        self.versions.pop(version, None)
        for clock in [clock for clock, used_at in self.used_at.items() if used_at <= version]:
            del self.used_at[clock]
        self.publish_points = {point for point in self.publish_points if point >= version}
        for known in [known for known in self.heads if known < version - heads_kept(self.config)]:
            del self.heads[known]
        self._forget_groups()

    def _forget_groups(self) -> None:
        """Keep the newest `FORMER_KEPT` of the groups that are gone; the others are known to be gone all the same."""
        gone = sorted(self.removed)[:-FORMER_KEPT]
        for group in gone:
            del self.removed[group]
        if gone:
            last = gone[-1]
            self.joined = {who: group for who, group in self.joined.items() if group > last or group in self.groups}

    # -- questions ---------------------------------------------------------------------------------------------------

    @property
    def is_finished(self) -> bool:
        """Whether the run has made its last version, or used its data as often as it was to; no version follows."""
        return self.has_begun and (self.config.is_last(self.version) or self.leases.is_done)

    def worker_group(self, worker: str) -> Group | None:
        """Return the live group of a worker name, if it has one."""
        return next((group for group in self.groups.values() if group.worker == worker), None)

    def is_settled(self, group_id: GroupId, clock: int) -> bool:
        """Whether the ledger has decided on this clock, or has removed its group."""
        group = self.groups.get(group_id)
        if group is not None:
            return clock <= group.settled_clock
        return group_id in self.removed or group_id.offset < self.next_offset


def _refuse(offset: int, record: LedgerRecord, contradiction: str) -> None:
    if contradiction:
        raise IntegrityError(
            f"ledger offset {offset}: a {type(record).__name__} that no coordinator writes: {contradiction}"
        )
