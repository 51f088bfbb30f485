"""What must hold of every record, when a process sends it and when it is in the log.

Sent: no process sends what does not follow from records it has read back as valid. Landed: what servers say about
deltas and states is true, and the ledger decides only what the log supports.
"""

from collections import Counter

from driftline.broker.topics import Stream
from driftline.consumers.coordinator.run_decisions import STOP_PATIENCE
from driftline.consumers.server.server import Server
from driftline.errors import Undecodable
from driftline.schemas.codec import decode
from driftline.schemas.effects import Send, Trim
from driftline.schemas.model.tensors import encode_fp32
from driftline.schemas.records import (
    AnyRecord,
    Checkpoint,
    Contribution,
    Delta,
    Event,
    GroupId,
    Heartbeat,
    LedgerRecord,
    Membership,
    Parameters,
    Publish,
    Ready,
    Receipt,
    RunEnd,
    ServerState,
    Skip,
    Snapshot,
    StateDigest,
    StopRequest,
    TermStart,
    Tick,
    Version,
)
from driftline.schemas.records.payload import snapshot_key
from tests.simulation.promises.checkpoints import CheckedStates
from tests.simulation.promises.liveness import NO_HEARTBEAT, REPLACED, Liveness
from tests.simulation.promises.reference_ledger import Moment, ReferenceLedger, Violation, require
from tests.simulation.promises.reference_model import ReferenceModel
from tests.simulation.run.actors import Actor, Cursor
from tests.simulation.run.log import Landed
from tests.simulation.run.quadratic import Problem

STOPPED = "stopped by operator: "
"""How the reason of an end begins that a command asked for."""


class Promises:
    """The references, and every check of a record against them.

    Attributes:
        ledger: the whole ledger, folded.
        model: the whole model, folded.
        liveness: heartbeats and ticks.
        states: what checkpoints carry.
        births: number of each incarnation, in the order of their starts, from 1.
        published: shards of each version that are in the parameters.
        records: what has landed, by type.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.ledger = ReferenceLedger(problem.config)
        self.model = ReferenceModel(problem)
        self.liveness = Liveness()
        self.states = CheckedStates()
        self.births: dict[bytes, int] = {}
        self.published: dict[int, set[int]] = {}
        self.records: Counter[str] = Counter()
        self._spent: dict[tuple[GroupId, int], bytes] = {}
        self._behind: set[tuple[bytes, bytes]] = set()
        self._snapshots: dict[tuple[int, bytes], int] = {}
        self._official: set[bytes] = set()
        self._decoded: dict[bytes, AnyRecord | None] = {}

    def decoded(self, value: bytes | None) -> AnyRecord | None:
        """Decode once what many look at."""
        if value is None:
            return None
        if value not in self._decoded:
            try:
                self._decoded[value] = decode(value)
            except Undecodable:
                self._decoded[value] = None
        return self._decoded[value]

    # -- landed ------------------------------------------------------------------------------------------------------

    def landed(self, one: Landed) -> None:
        """A record has become part of the log."""
        record = self.decoded(one.value)
        self.records[type(record).__name__] += 1
        if one.stream is Stream.LEDGER:
            self._ledger(record, one)
        elif one.stream is Stream.DELTAS and isinstance(record, Delta) and self.ledger.start is not None:
            self.model.saw_delta(self.ledger.start.run, record, one)
        elif one.stream is Stream.PARAMETERS and isinstance(record, Parameters) and not one.forged:
            self._parameters(record)
        elif one.stream is Stream.SNAPSHOTS and not one.forged:
            self._snapshot(record, one)
        elif one.stream is Stream.EVENTS and isinstance(record, Event):
            self._event(record, one.offset, forged=one.forged)

    def _ledger(self, record: AnyRecord | None, one: Landed) -> None:
        before = self.ledger.now
        valid = self.ledger.append(record, one.value)
        self.states.read(one.value)
        if valid is None:
            return
        require(not one.forged or isinstance(valid, TermStart), "a void record counts")
        if isinstance(valid, Version):
            self.model.apply(valid)
        if isinstance(valid, Version | Publish | RunEnd):
            for state in valid.states:
                self._state(state, before)
        if isinstance(valid, Checkpoint):
            self._checkpoint(valid)
        self._paces(after=valid if isinstance(valid, Version) else None)

    def _paces(self, after: Version | None) -> None:
        """How far apart live groups may stand by the clock rule, as far as the ledger shows it."""
        bounds, head, members = self.problem.config.consistency, self.ledger.now.version, self.ledger.members.values()
        if not bounds.closes_by_clock or bounds.drop_slowest or not members:
            return
        paces = [member.pace for member in members]
        spread = max(paces) - min(paces)
        require(spread <= bounds.staleness + 1, f"the fastest is {spread} ahead of the slowest: {sorted(paces)}")
        if after is not None:
            require(min(paces) >= head - bounds.staleness, f"version {head} closes although a group is at {min(paces)}")
            require(bounds.staleness > 0 or max(paces) == head, f"in lock-step a group is at {max(paces)}, not {head}")
            late = max((use.staleness for use in after.uses), default=0)
            refused = bounds.on_stale == "reject" and bounds.tolerated is not None
            require(
                not refused or late <= (bounds.tolerated or 0), f"version {head} uses what is {late} versions stale"
            )

    def _state(self, state: StateDigest, before: Moment) -> None:
        require(state.version <= before.version, f"digest of version {state.version} at head {before.version}")
        right = self.model.states[state.version].digests
        same = (state.state, state.parameters) == (right.model, right.parameters)
        require(same, f"version {state.version} has another digest in the ledger than its fold")

    def _parameters(self, record: Parameters) -> None:
        self._is_version(record.version, record.head)
        self.published.setdefault(record.version, set()).add(record.shard)
        state, layout = self.model.states[record.version], self.problem.layout
        right = encode_fp32(state.masters[slice(*layout.shard_range(record.shard))]).tobytes()
        require(bytes(record.payload) == right, f"parameters of shard {record.shard}, version {record.version}")
        require(record.state_digest == state.digests.states[record.shard], "digest in parameters")

    def _snapshot(self, record: AnyRecord | None, one: Landed) -> None:
        """Snapshots tell the state of their version; the last official ones are never deleted."""
        if one.value is None:
            require(one.key not in self._official, f"a tombstone for {one.key!r}, which the last checkpoint names")
        if not isinstance(record, Snapshot):
            return
        self._snapshots[one.partition, record.digest] = one.offset
        if record.version == 0:
            return
        self._is_version(record.version, record.head)
        state, part = self.model.states[record.version], slice(*self.problem.layout.shard_range(record.shard))
        right = {"master": state.masters, **state.moments}.get(record.tensor)
        same = right is None or bytes(record.payload) == encode_fp32(right[part]).tobytes()
        require(same, f"snapshot of {record.tensor} of shard {record.shard}, version {record.version}")

    def _checkpoint(self, record: Checkpoint) -> None:
        """It names only what is in the log, and no delta before its floors is needed any more."""
        layout = self.problem.layout
        for place in record.places:
            at = self._snapshots.get((layout.partition_of(place.shard), place.digest), -1)
            require(place.offset <= at, f"a checkpoint names {place.tensor} of shard {place.shard}, which is not there")
        self._official = {snapshot_key(one.shard, record.version, one.tensor, one.digest) for one in record.places}
        for clock, copies in self.model.copies.items():
            settled = self.ledger.settled.get(clock, record.version + 1)
            if clock[0] in self.ledger.gone or settled <= record.version:
                continue
            for shard, copy in copies.items():
                kept = copy.offset >= record.floors[copy.partition]
                require(kept, f"checkpoint {record.version} gives up shard {shard} of {clock}, which is still needed")

    def trims(self, trim: Trim) -> None:
        """A process deletes old deltas: none that the ledger's last checkpoint does not make needless."""
        checkpoint = self.ledger.checkpoint
        needless = checkpoint is not None and trim.before <= checkpoint.floors[trim.partition]
        require(
            needless and trim.stream is Stream.DELTAS, f"deltas before {trim.before} are deleted without a checkpoint"
        )

    def _is_version(self, version: int, head: bytes) -> None:
        known = self.ledger.version_heads
        if not 0 <= version < len(known) or known[version] != head:
            raise Violation(f"no version {version} with head {head.hex()}")

    def _event(self, event: Event, offset: int, *, forged: bool) -> None:
        match event:
            case Tick() | Heartbeat() | Ready():
                self.liveness.heard(event, offset)
            case StopRequest() if not forged and self.ledger.start is not None and event.run == self.ledger.start.run:
                self.liveness.asked_to_stop(offset)
            case Contribution() if not forged:
                self.model.heard(event)
            case Receipt() if not forged:
                self._receipt(event)
            case ServerState() if not forged:
                self._server_state(event)

    def _receipt(self, receipt: Receipt) -> None:
        clock = (receipt.group, receipt.clock)
        require(not receipt.refusal or clock in self.model.not_finite, f"refused without reason: {receipt.refusal}")
        for one in receipt.shards:
            copy = self.model.copies.get(clock, {}).get(one.shard)
            named = (one.partition, one.offset, one.digest)
            if copy is None or (copy.partition, copy.offset, copy.digest) != named:
                raise Violation(f"a receipt for shard {one.shard} of {clock} names another delta than the first sound")

    def _server_state(self, state: ServerState) -> None:
        require(not state.failure, f"{state.server} fails: {state.failure}")
        for one in state.shards:
            right = self.model.states[one.version].digests
            if (one.state, one.masters) != (right.states[one.shard], right.masters[one.shard]):
                raise Violation(f"{state.server} has another digest of shard {one.shard} at version {one.version}")

    # -- sent --------------------------------------------------------------------------------------------------------

    def sent(self, actor: Actor, send: Send) -> None:
        """A process sends a record; what it says must follow from what that process has read."""
        value = send.value if send.value is None or isinstance(send.value, bytes) else send.value.tobytes()
        record = self.decoded(value)
        known = self.ledger.moments[actor.core.state.next_offset]
        match record:
            case TermStart():
                require(known.term < record.term, "a TermStart that the candidate itself knows to be void")
            case Parameters() | ServerState():
                if record.version > known.version:
                    raise Violation(f"{actor} speaks of a version that it has not read")
            case Contribution() | Skip():
                require(record.base_version <= known.version, f"{actor} builds on a version that it has not read")
                self._is_version(record.base_version, record.base_head)
                first = self._spent.setdefault((record.group, record.clock), value or b"")
                require(first == value, f"{actor} says something else of clock {record.clock}")
            case _ if isinstance(record, LedgerRecord):
                self._decided(actor, record, known)
            case _:
                pass

    def _decided(self, actor: Actor, record: LedgerRecord, known: Moment) -> None:
        what = f"{actor} writes {type(record).__name__}"
        require(isinstance(actor.core, Server), f"{what} and is no server")
        require(record.term == known.term and record.parent == known.head, f"{what} behind what it has not read back")
        leader = known.leader
        require(leader is not None and leader.incarnation == actor.incarnation, f"{what} in another's term")
        behind = (actor.incarnation, record.parent)
        require(behind not in self._behind, f"{what}, the second record behind one that it has read back")
        self._behind.add(behind)
        events = actor.cursors[Stream.EVENTS, 0]
        if isinstance(record, Membership):
            self._membership(record, events.offset)
        elif isinstance(record, Version):
            asked = self.liveness.stops_between(events.first, events.offset)
            require(not asked, f"{what} {record.version} after it was asked to end the run")
        elif isinstance(record, RunEnd) and not record.failure:
            self._run_end(record, events)

    def _run_end(self, record: RunEnd, events: Cursor) -> None:
        """The run ends at its last version or because a command asked, and at a state that servers have reported."""
        if not self.is_goal(record.version):
            asked = self.liveness.stops_between(events.first, events.offset)
            require(asked and record.reason.startswith(STOPPED), f"ends at version {record.version}: {record.reason}")
        reported = record.version in self.ledger.states or any(one.version == record.version for one in record.states)
        waited = self.liveness.ticks_since_stop(record.term, events.offset)
        patient = waited >= STOP_PATIENCE * self.problem.config.gone_after_ticks
        require(
            reported or patient, f"ends at version {record.version}, which no server has reported, after {waited} ticks"
        )

    def is_goal(self, version: int) -> bool:
        """Whether the run has reached its last version, or used each sample as often as it was to be."""
        return version == self.problem.config.steps or self.ledger.samples.is_done

    @property
    def is_stopped(self) -> bool:
        """Whether the run has ended because a command asked."""
        return self.ledger.end is not None and self.ledger.end.reason.startswith(STOPPED)

    @property
    def ended_unpublished(self) -> bool:
        """Whether the run has ended without waiting any longer for the digests of its head."""
        return self.is_stopped and self.ledger.now.version not in self.ledger.states

    def _membership(self, record: Membership, read: int) -> None:
        """Only a real incarnation joins; a member goes when it is silent, says so, or a later start replaces it."""
        patience, births = self.problem.config.gone_after_ticks, self.births
        joins = {join.worker: births.get(join.incarnation, 0) for join in record.joins}
        require(0 not in joins.values(), f"a worker that never was joins: {joins}")
        for removal in record.removals:
            member = self.ledger.members.get(removal.group)
            if member is None:
                continue  # another coordinator was faster: this record will be void
            who, incarnation = member.worker, member.incarnation
            if removal.reason.startswith(NO_HEARTBEAT):
                silent = self.liveness.silence((who, incarnation), record.term, read)
                require(silent >= patience, f"{who} is removed after {silent} ticks without a heartbeat")
            elif removal.reason.startswith(REPLACED):
                require(joins.get(who, 0) > births[incarnation], f"{who} is replaced by an earlier start of itself")
