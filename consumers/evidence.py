"""The coordinator's soft state: what members have said and the ledger does not yet hold.

All of it can be lost: every event is repeated by its sender on a valid `TermStart` until its effect is in the ledger.
Everything is bounded: clocks by the ledger's settled clock plus `CLOCKS_AHEAD`, members by the ledger's own.
"""

from collections import Counter, deque
from dataclasses import dataclass

from driftline.consumers.event_check import event_problem, shorten, weight_problem
from driftline.consumers.run_state import RunState
from driftline.schemas.digests import contribution_root, model_digest, verify_digest
from driftline.schemas.layout import Layout
from driftline.schemas.records import (
    Contribution,
    EvaluationReport,
    Event,
    GroupId,
    Heartbeat,
    Leave,
    Proposal,
    Ready,
    Receipt,
    ServerState,
    ShardDigest,
    ShardReceipt,
    Skip,
    Snapshot,
    StateDigest,
    UndecodableReport,
)

CLOCKS_AHEAD = 64
"""Clocks beyond the settled one that are remembered a group; far above any K, far below any memory."""

KEEPING_UP = 2
"""Versions that an owner may be behind the head and still count as reading what there is."""

MAX_PROPOSALS = 64

MAX_CLAIMS = 4096
"""Incarnations that want to join and have not."""

REPEATS = 3
"""Ticks in which an incarnation must say `Ready` before it replaces a member of its name: one alone may be a late one
of a process that died long ago."""

CLAIM_GAP = 8
"""Ticks of silence after which repetitions are counted anew."""

MAX_STRANGE_CLOCKS = 4096
"""Clocks that are remembered of groups whose `Join` we have yet to read, all of them together."""

MAX_EARLY = 1024
"""Events that are remembered while the run has not started; the newest."""

Clock = tuple[GroupId, int]
Member = tuple[str, bytes]


@dataclass(slots=True)
class Claim:
    """An incarnation wants to join, and says so once a tick interval."""

    event: Ready
    last_tick: int = -1
    repeats: int = 0


class Evidence:
    """What has been heard in this reign (and shortly before)."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._early: deque[Event] = deque(maxlen=MAX_EARLY)
        self.proposals: dict[bytes, Proposal] = {}
        self.snapshots: dict[bytes, dict[int, bytes]] = {}
        self.claims: dict[Member, Claim] = {}
        self._members: dict[str, GroupId] = {}
        self.leaving: dict[Member, int] = {}
        self.heard: dict[Member, int] = {}
        self.evaluators: set[Member] = set()
        self.offers: dict[Clock, Contribution | Skip] = {}
        self.receipts: dict[Clock, dict[int, ShardReceipt]] = {}
        self.refusals: dict[Clock, str] = {}
        self._rooted: dict[Clock, bool] = {}
        self.offered_at: dict[Clock, int] = {}
        self.served_ticks = 0
        self.owners: dict[int, Member] = {}
        self.applied: dict[int, int] = {}
        self.digests: dict[int, dict[int, ShardDigest]] = {}
        self.states: dict[int, StateDigest] = {}
        self.reports: dict[int, EvaluationReport] = {}
        self.failure = ""
        self.counters: Counter[str] = Counter()

    # -- hearing -----------------------------------------------------------------------------------------------------

    def hear(self, event: Event, ticks_read: int) -> None:
        """Remember an event of this run. Events of another run under the same name are counted and dropped."""
        start = self._state.start
        if start is None and not isinstance(event, Proposal):
            self._early.append(event)  # RunStart, once we have read it, says whether it is of this run
        elif start is not None and event.run != start.run:
            self.counters["foreign_events"] += 1
        else:
            self._hear(event, ticks_read)

    def _hear(self, event: Event, ticks_read: int) -> None:
        if event_problem(event, self._state.layout, self._state.version):
            self.counters["events_refused"] += 1
            return
        match event:
            case Ready() | Heartbeat() | ServerState() | Leave():
                self._hear_member(event, ticks_read)
            case Proposal():
                self._hear_proposal(event)
            case Contribution() | Skip():
                self._hear_offer(event)
            case Receipt():
                self._hear_receipt(event)
            case EvaluationReport():
                self._hear_report(event)
            case UndecodableReport():
                self.counters["undecodable"] += 1

    def _alive(self, member: str, incarnation: bytes, ticks_read: int) -> None:
        self.heard[member, incarnation] = ticks_read

    def _hear_member(self, event: Ready | Heartbeat | ServerState | Leave, ticks_read: int) -> None:
        match event:
            case Ready():
                self._alive(event.worker, event.incarnation, ticks_read)
                self._hear_ready(event, ticks_read)
            case Heartbeat():
                self._alive(event.member, event.incarnation, ticks_read)
                if event.role == "evaluator":
                    self.evaluators.add((event.member, event.incarnation))
            case ServerState():
                self._alive(event.server, event.incarnation, ticks_read)
                self._hear_server(event)
            case Leave():
                self.leaving[event.worker, event.incarnation] = ticks_read

    def _hear_proposal(self, event: Proposal) -> None:
        if self._state.start is None and len(self.proposals) < MAX_PROPOSALS:
            self.proposals.setdefault(event.run, event)

    def _hear_ready(self, event: Ready, ticks_read: int) -> None:
        member = (event.worker, event.incarnation)
        if member in self._state.joined:
            return
        if len(self.claims) >= MAX_CLAIMS:
            del self.claims[next(iter(self.claims))]
        claim = self.claims.setdefault(member, Claim(event))
        if claim.last_tick != ticks_read:
            claim.repeats = 1 if ticks_read > claim.last_tick + CLAIM_GAP else claim.repeats + 1
            claim.last_tick = ticks_read

    def _hear_offer(self, event: Contribution | Skip) -> None:
        if self._is_wanted(event.group, event.clock):
            self.offers.setdefault((event.group, event.clock), event)
            self.offered_at.setdefault((event.group, event.clock), self.served_ticks)

    def _hear_receipt(self, event: Receipt) -> None:
        if not self._is_wanted(event.group, event.clock):
            return
        clock = (event.group, event.clock)
        if event.refusal:
            self.refusals.setdefault(clock, shorten(event.refusal))
        self._rooted.pop(clock, None)
        self.receipts.setdefault(clock, {}).update({receipt.shard: receipt for receipt in event.shards})

    def _is_wanted(self, group_id: GroupId, clock: int) -> bool:
        if self._state.is_settled(group_id, clock):
            self.counters["late_events"] += 1
            return False
        group = self._state.groups.get(group_id)
        if clock > (group.settled_clock if group else 0) + CLOCKS_AHEAD or (group is None and self._is_full()):
            self.counters["clocks_too_far_ahead"] += 1
            return False
        return True

    def _is_full(self) -> bool:
        """Whether so much is remembered that clocks of unknown groups must be among it, and no few."""
        most = CLOCKS_AHEAD * len(self._state.groups) + MAX_STRANGE_CLOCKS
        return max(len(self.offers), len(self.receipts)) >= most

    def _hear_server(self, event: ServerState) -> None:
        self.failure = self.failure or shorten(event.failure)
        for partition in event.partitions:
            self.applied[partition.partition] = event.version
            self.owners[partition.partition] = (event.server, event.incarnation)
        for digest in event.shards:
            self._hear_digest(digest, event)

    def _hear_digest(self, digest: ShardDigest, event: ServerState) -> None:
        layout = self._state.layout
        if layout is None or digest.version in self._state.states or digest.version in self.states:
            return
        shards = self.digests.setdefault(digest.version, {})
        known = shards.setdefault(digest.shard, digest)
        if (known.state, known.masters) != (digest.state, digest.masters):
            self.failure = self.failure or (
                f"shard {digest.shard} of version {digest.version} has two digests: {known.state.hex()[:16]} and, "
                f"from server {event.server}, {digest.state.hex()[:16]}"
            )
        if len(shards) == layout.shard_count:
            ordered = [shards[shard] for shard in range(layout.shard_count)]
            self.states[digest.version] = StateDigest(
                version=digest.version,
                state=model_digest([shard.state for shard in ordered]),
                parameters=model_digest([shard.masters for shard in ordered]),
            )
            del self.digests[digest.version]

    def _hear_report(self, event: EvaluationReport) -> None:
        """Keep a report, also of a version that we have yet to read: streams are read at different speeds."""
        state = self._state
        unread = state.version < event.version <= state.version + CLOCKS_AHEAD
        if event.version not in state.evaluations and (unread or state.heads.get(event.version) == event.head):
            self.reports[event.version] = event

    def saw_snapshot(self, snapshot: Snapshot, value: bytes) -> None:
        """Remember a snapshot if a proposal names it and it is what its digest says."""
        for proposal in self.proposals.values():
            named = 0 <= snapshot.shard < len(proposal.shards) and proposal.shards[snapshot.shard] == snapshot.digest
            if named and snapshot.version == 0 and verify_digest(proposal.run, value, snapshot):
                self.snapshots.setdefault(proposal.run, {})[snapshot.shard] = snapshot.digest

    # -- asking ------------------------------------------------------------------------------------------------------

    def is_complete(self, proposal: Proposal) -> bool:
        """Whether every version-0 shard of the proposal can be read."""
        found = self.snapshots.get(proposal.run, {})
        return all(found.get(shard) == digest for shard, digest in enumerate(proposal.shards))

    def refusal(self, clock: Clock) -> str:
        """Why the contribution of this clock cannot be used, or nothing."""
        offer = self.offers.get(clock)
        layout = self._state.layout
        if offer is None or layout is None:
            return ""
        if self._state.heads.get(offer.base_version) != offer.base_head:
            return f"its base is no version {offer.base_version} of this ledger"
        if isinstance(offer, Skip):
            return ""
        unusable = weight_problem(offer.weight) or self.refusals.get(clock, "")
        if unusable:
            return unusable
        receipts = self.receipts.get(clock, {})
        if len(receipts) < layout.shard_count:
            return ""
        return "" if self._hashes_to_root(clock, offer, layout) else "its deltas do not hash to its root"

    def _hashes_to_root(self, clock: Clock, offer: Contribution, layout: Layout) -> bool:
        """Whether the receipts of a covered contribution name the deltas that it was made of; asked again and again."""
        if clock not in self._rooted:
            receipts = self.receipts[clock]
            root = contribution_root([receipts[shard].digest for shard in range(layout.shard_count)])
            self._rooted[clock] = root == offer.root
        return self._rooted[clock]

    def hear_tick(self, ticks_read: int) -> None:
        """Count a tick for contributions that are not whole, if every partition has an owner that keeps up.

        A partition without a live owner, or with one that still refolds, says nothing about what is in the log.
        """
        config = self._state.config
        if config is None:
            return
        self.served_ticks += all(
            partition in self.owners
            and ticks_read - self.heard.get(self.owners[partition], 0) < config.gone_after_ticks
            and self.applied[partition] >= self._state.version - KEEPING_UP
            for partition in range(config.partitions)
        )

    def incomplete(self, clock: Clock, patience: int) -> str:
        """Why a contribution that never became whole is given up, or nothing while there is hope."""
        waited = self.served_ticks - self.offered_at.get(clock, self.served_ticks)
        if waited < patience or self.is_whole(clock):
            return ""
        layout = self._state.layout
        count = 0 if layout is None else layout.shard_count - len(self.receipts.get(clock, {}))
        return f"not whole after {waited} ticks: receipts of {count} shards are missing"

    def is_whole(self, clock: Clock) -> bool:
        """Whether this clock can settle in a version: a skip, or a contribution whose deltas are all in the log."""
        offer = self.offers.get(clock)
        layout = self._state.layout
        if offer is None or layout is None or self.refusal(clock):
            return False
        return isinstance(offer, Skip) or len(self.receipts.get(clock, {})) == layout.shard_count

    def pending(self, group_id: GroupId) -> list[int]:
        """Return the whole, unsettled clocks of a group, in order and without a gap."""
        clock = self._state.groups[group_id].settled_clock + 1
        whole: list[int] = []
        while self.is_whole((group_id, clock)):
            whole.append(clock)
            clock += 1
        return whole

    def pace(self, group_id: GroupId) -> int:
        """Settled pace plus whole pending clocks, in versions."""
        return self._state.groups[group_id].settled_pace + len(self.pending(group_id))

    def successor(self, member: Member) -> Member | None:
        """Return another incarnation of a member that wants its place and lives."""
        name, incarnation = member
        return next(
            (
                other
                for other, claim in self.claims.items()
                if other[0] == name and other[1] != incarnation and claim.repeats >= REPEATS
            ),
            None,
        )

    def candidates(self, ticks_read: int, patience: int) -> dict[str, Ready]:
        """Return who may join, by name; of several incarnations the one that was heard of last."""
        able = [
            member
            for member in self.claims
            if member not in self.leaving and ticks_read - self.heard.get(member, 0) < patience
        ]
        able.sort(key=lambda member: self.claims[member].last_tick)
        return {member[0]: self.claims[member].event for member in able}

    def measured(self) -> EvaluationReport | None:
        """Return a report on a version of this ledger that the ledger does not yet hold."""
        heads = self._state.heads
        return next((one for version, one in sorted(self.reports.items()) if heads.get(version) == one.head), None)

    # -- forgetting --------------------------------------------------------------------------------------------------

    def forget_lives(self) -> None:
        """Count silence from now on: ticks of another reign say nothing."""
        self.heard.clear()
        self.claims = {member: Claim(claim.event) for member, claim in self.claims.items()}

    def _forget_claims(self) -> None:
        """Drop claims that were granted, and those made before another incarnation of the name joined."""
        state = self._state
        members = {group.worker: group.id for group in state.groups.values()}
        fresh = {name for name, group in members.items() if self._members.get(name) != group}
        self._members = members
        self.claims = {
            member: claim
            for member, claim in self.claims.items()
            if member not in state.joined and member[0] not in fresh
        }

    def forget_silent(self, ticks_read: int, patience: int) -> None:
        """Drop who is no live group and was not heard for so many ticks: to be unknown is to be silent."""
        live = {(group.worker, group.incarnation) for group in self._state.groups.values()}
        self.heard = {
            member: tick for member, tick in self.heard.items() if member in live or ticks_read - tick < patience
        }
        if ticks_read >= patience:  # before that, who was not heard in this reign is not silent yet
            self.evaluators &= self.heard.keys()
        self.leaving = {
            member: tick for member, tick in self.leaving.items() if member in live or 0 <= ticks_read - tick < patience
        }

    def forget_settled(self) -> None:
        """Drop what the ledger now holds."""
        state = self._state
        for table in (self.offers, self.offered_at, self.receipts, self.refusals, self._rooted):
            for clock in [clock for clock in table if state.is_settled(*clock)]:
                del table[clock]
        self._forget_claims()
        self.states = {version: digest for version, digest in self.states.items() if version not in state.states}
        self.digests = {version: shards for version, shards in self.digests.items() if version not in state.states}
        self.reports = {version: event for version, event in self.reports.items() if version not in state.evaluations}
        if state.start is not None:
            self.proposals.clear()
            self.snapshots.clear()
            while self._early:
                self.hear(self._early.popleft(), ticks_read=0)
