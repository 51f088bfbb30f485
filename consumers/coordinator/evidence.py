"""The coordinator's soft state: what members have sent and the ledger does not yet hold.

All of it can be lost: every event is repeated by its sender on a valid `TermStart` until its effect is in the ledger.
Everything is bounded: clocks by the ledger's settled clock plus `CLOCKS_AHEAD`, members by the ledger's own.

It has five parts that know nothing of each other: the birth of the run, members, clocks, versions and snapshots.
"""

from collections import deque
from collections.abc import Mapping

from driftline.consumers.coordinator.pending_clocks import PendingClocks
from driftline.consumers.coordinator.pending_members import PendingMembers
from driftline.consumers.coordinator.pending_snapshots import PendingSnapshots
from driftline.consumers.coordinator.pending_start import PendingStart
from driftline.consumers.coordinator.pending_versions import PendingVersions
from driftline.ledger.event_check import event_problem
from driftline.ledger.run_state import RunState
from driftline.schemas.records import (
    Contribution,
    EvaluationReport,
    Event,
    Heartbeat,
    Leave,
    Proposal,
    Ready,
    Receipt,
    ServerState,
    Skip,
    SnapshotReport,
    StopRequest,
    UndecodableReport,
)

MAX_EARLY = 1024
"""Events that are remembered while the run has not started; the newest."""


class Evidence(PendingStart, PendingMembers, PendingClocks, PendingVersions, PendingSnapshots):
    """Events of this term (and shortly before)."""

    def __init__(self, state: RunState) -> None:
        for part in (PendingStart, PendingMembers, PendingClocks, PendingVersions, PendingSnapshots):
            part.__init__(self, state)
        self._early: deque[tuple[Event, int]] = deque(maxlen=MAX_EARLY)
        self.ends: dict[int, int] = {}

    def add(self, event: Event, ticks_read: int) -> None:
        """Remember an event of this run. Events of another run under the same name are counted and dropped."""
        has_begun = self._state.has_begun
        if not has_begun and not isinstance(event, Proposal):
            self._early.append((event, ticks_read))  # RunStart, once we have read it, says whether it is of this run
        elif has_begun and event.run != self._state.start.run:
            self.counters["foreign_events"] += 1
        else:
            self._add(event, ticks_read)

    def _add(self, event: Event, ticks_read: int) -> None:
        if event_problem(event, self._state):
            self.counters["events_refused"] += 1
            return
        self._add_of_server(event)
        match event:
            case Ready() | Heartbeat() | Leave() | ServerState():
                self._add_member(event, ticks_read)
            case StopRequest():
                self._add_stop(event, ticks_read)
            case Proposal():
                self._add_proposal(event)
            case Contribution() | Skip():
                self._add_offer(event)
            case Receipt():
                self._add_receipt(event)
            case EvaluationReport():
                self._add_evaluation(event)
            case UndecodableReport():
                self.counters["undecodable"] += 1

    def _add_of_server(self, event: Event) -> None:
        match event:
            case ServerState():
                self._add_server_state(event)
            case SnapshotReport():
                self._add_snapshots(event)
            case _:
                pass

    def add_tick(self, ticks_read: int) -> None:
        """Count a tick for contributions that are not whole, if their deltas would have been read if they were there.

        Every partition has a live owner that reports a reading position at or behind the partition's end, as that was
        looked up after the last tick that counted. An owner that is behind says nothing about what is in the log.
        """
        if not self.ends:
            return
        config = self._state.config
        read_to_the_end = all(
            partition in self.owners
            and ticks_read - self.last_seen.get(self.owners[partition], 0) < config.gone_after_ticks
            and self.positions[partition] >= self.ends[partition]
            for partition in range(config.partitions)
        )
        if read_to_the_end:
            self._add_served_tick()
            self.ends = {}

    def add_ends(self, ends: Mapping[int, int]) -> None:
        """Remember where the partitions of the deltas end; an answer that lacks one of them is none."""
        if all(partition in ends for partition in range(self._state.config.partitions)):
            self.ends = dict(ends)

    def forget_lives(self) -> None:
        """Count silence from now on: ticks of another term say nothing."""
        super().forget_lives()
        self._early = deque(((event, 0) for event, _ in self._early), MAX_EARLY)

    def forget_settled(self) -> None:
        """Drop what the ledger now holds."""
        self._forget_clocks()
        self._forget_claims()
        self._forget_versions()
        self._forget_snapshots()
        self._forget_birth()
        while self._state.has_begun and self._early:
            self.add(*self._early.popleft())
