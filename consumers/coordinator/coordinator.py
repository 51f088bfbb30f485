"""The coordinator: one role inside the server group that folds events into the ledger.

Leadership of a term is a table of phases:

    IDLE      the consumer group gives `events` to another process
    STANDING  it is ours: wait a random, doubling back-off, and for the ledger to be read to its end
    CLAIMING  `TermStart` (term + 1, a random nonce) is sent; nothing is written behind it before it is read back
    LEADING   decide, one record at a time; a record counts when it is read back valid, recognised by its bytes

A coordinator steps down, back to STANDING, when it reads its own record as void, does not read it within `READ_BACK_S`,
reads a higher term, or a produce error comes. An acknowledgement proves nothing and is ignored.
"""

import random
from enum import Enum

from driftline.broker.port import Start
from driftline.broker.topics import Stream
from driftline.consumers.coordinator.decisions import decide
from driftline.consumers.coordinator.evidence import Evidence
from driftline.consumers.coordinator.pending_clocks import Clock
from driftline.errors import ConfigError
from driftline.ledger.run_state import Folded, RunState
from driftline.schemas.codec import encode
from driftline.schemas.effects import AskEnds, Effect, EndsKnown, Read, Send, SendFailed, StopReading
from driftline.schemas.records import NO_RUN, Event, LedgerRecord, Proposal, RunStart, Snapshot, TermStart, Tick
from driftline.schemas.run.config_json import run_config_from_json

READ_BACK_S = 10.0
"""A record of ours that is not read back by then ends the leadership; longer than a broker's fail-over."""

FIRST_BACK_OFF_S = 0.05
LAST_BACK_OFF_S = 5.0


class Phase(Enum):
    """Where a candidate stands."""

    IDLE = "idle"
    STANDING = "standing"
    CLAIMING = "claiming"
    LEADING = "leading"


class Coordinator:
    """Candidate for, and holder of, the coordinator's role in one process.

    Args:
        name: of the server process, for people.
        incarnation: of the server process, 16 bytes.
        state: fold of the ledger, shared with the process; records are folded before they are handed over here.
        rng: source of nonces and back-off; seeded in the simulation.
    """

    def __init__(self, name: str, incarnation: bytes, state: RunState, rng: random.Random) -> None:
        self._name = name
        self._incarnation = incarnation
        self._state = state
        self._rng = rng
        self.phase = Phase.IDLE
        self.evidence = Evidence(state)
        self.leaderships = 0
        self._now_s = 0.0
        self._caught_up = False
        self._failed_terms = 0
        self._stand_at_s = 0.0
        self._outstanding: bytes | None = None
        self._deadline_s = 0.0
        self._ticks_read = 0
        self._tick_outstanding = False
        self._next_tick_s = 0.0
        self._snapshot_partitions = 0
        self._lacking: set[Clock] = set()
        self._ends_asked = False

    # -- ownership of events -----------------------------------------------------------------------------------------

    def on_assigned(self) -> list[Effect]:
        """The consumer group says that this process may stand."""
        self.evidence = Evidence(self._state)
        self._stand()
        return []

    def on_revoked(self) -> list[Effect]:
        """Another process may stand now."""
        self.phase = Phase.IDLE
        self._outstanding = None
        return self._stop_snapshots()

    def on_ledger_caught_up(self) -> None:
        """The ledger has been read to its end at least once."""
        self._caught_up = True

    # -- inputs ------------------------------------------------------------------------------------------------------

    def on_timer(self, now_s: float) -> list[Effect]:
        """Stand, give up, or tick, as the time has come."""
        self._now_s = now_s
        if self.phase is Phase.STANDING and self._caught_up and now_s >= self._stand_at_s:
            return self._claim()
        if self._outstanding is not None and now_s >= self._deadline_s:
            self._step_down()
        if self.phase is Phase.LEADING:
            return self._tick()
        return []

    def on_ledger(self, folded: Folded) -> list[Effect]:
        """A ledger record was read and folded."""
        own = self._outstanding is not None and folded.value == self._outstanding
        if own:
            self._outstanding = None
            if folded.record is None:
                self._step_down()
                return []
            if isinstance(folded.record, TermStart):
                self._lead()
            else:  # a claim alone is no success: two candidates that only ever claim must back off further
                self._failed_terms = 0
        elif isinstance(folded.record, TermStart) and self.phase in (Phase.CLAIMING, Phase.LEADING):
            self._step_down()
        if folded.record is not None:
            self.evidence.forget_settled()
        done = self._stop_snapshots() if isinstance(folded.record, RunStart) else []
        return done + self._next()

    def on_event(self, event: Event) -> list[Effect]:
        """An event was read; only the owner of the partition gets here."""
        effects: list[Effect] = []
        if isinstance(event, Tick):
            effects += self._on_tick(event)
        else:
            self.evidence.add(event, self._ticks_read)
        if isinstance(event, Proposal):
            effects += self._look_for_snapshots(event)
        return effects + self._next()

    def on_snapshot(self, snapshot: Snapshot, value: bytes) -> list[Effect]:
        """A snapshot was read; before `RunStart` it may complete a proposal."""
        if not self._state.has_begun:
            self.evidence.saw_snapshot(snapshot, value)
        return self._next()

    def on_send_failed(self, failed: SendFailed) -> list[Effect]:
        """A produce error has an unknown outcome; it ends the leadership, and the next one reads what became of it."""
        ours = isinstance(failed.send.value, bytes) and failed.send.stream is Stream.LEDGER
        if ours and self.phase in (Phase.CLAIMING, Phase.LEADING):
            self._step_down()
        if failed.send.stream is Stream.EVENTS:
            self._tick_outstanding = False
        return []

    # -- phases ------------------------------------------------------------------------------------------------------

    def _stand(self) -> None:
        self.phase = Phase.STANDING
        self._outstanding = None
        longest = min(LAST_BACK_OFF_S, FIRST_BACK_OFF_S * 2.0**self._failed_terms)
        self._stand_at_s = self._now_s + self._rng.uniform(0.0, longest)

    def _step_down(self) -> None:
        self._failed_terms = min(self._failed_terms + 1, 16)
        self.evidence.counters["leaderships_ended"] += 1
        self._stand()

    def _claim(self) -> list[Effect]:
        self.phase = Phase.CLAIMING
        return self._append(
            TermStart(
                term=self._state.chain.term + 1,
                parent=self._state.chain.head,
                nonce=self._rng.randbytes(16),
                coordinator=self._name,
                incarnation=self._incarnation,
            )
        )

    def _lead(self) -> None:
        self.phase = Phase.LEADING
        self.leaderships += 1
        self._ticks_read = 0
        self._tick_outstanding = False
        self._next_tick_s = self._now_s
        self.evidence.forget_lives()

    def _next(self) -> list[Effect]:
        if self.phase is not Phase.LEADING or self._outstanding is not None:
            return []
        record = decide(self._state, self.evidence, self._ticks_read)
        return [] if record is None else self._append(record)

    def _append(self, record: LedgerRecord) -> list[Effect]:
        value = bytes(encode(record))
        self._outstanding = value
        self._deadline_s = self._now_s + READ_BACK_S
        return [Send(Stream.LEDGER, 0, value)]

    # -- ticks -------------------------------------------------------------------------------------------------------

    def _tick(self) -> list[Effect]:
        if self._state.ended is not None or self._tick_outstanding or self._now_s < self._next_tick_s:
            return []
        self._tick_outstanding = True
        run = self._state.start.run if self._state.has_begun else NO_RUN
        tick = Tick(run=run, term=self._state.chain.term, sequence=self._ticks_read + 1)
        return [Send(Stream.EVENTS, 0, encode(tick))]

    def _on_tick(self, tick: Tick) -> list[Effect]:
        expected = (self._state.chain.term, self._ticks_read + 1)
        if self.phase is not Phase.LEADING or (tick.term, tick.sequence) != expected:
            return []
        self._ticks_read += 1
        self.evidence.add_tick(self._ticks_read)
        self._tick_outstanding = False
        self._next_tick_s = self._now_s + (self._state.config.tick_interval_s if self._state.has_begun else 0.25)
        if self._state.has_begun:
            self.evidence.forget_silent(self._ticks_read, self._state.config.gone_after_ticks)
        return self._ask_ends()

    def _ask_ends(self) -> list[Effect]:
        """Ask where the deltas end, while a contribution has lacked receipts for a whole tick."""
        before, self._lacking = self._lacking, self.evidence.lacking()
        if self._ends_asked or self.evidence.ends or not before & self._lacking:
            return []
        self._ends_asked = True
        return [AskEnds(Stream.DELTAS)]

    def on_ends(self, known: EndsKnown) -> list[Effect]:
        """The ends of the deltas, as they were after they were asked for."""
        self._ends_asked = False
        self.evidence.add_ends(known.ends)
        return []

    # -- proposals ---------------------------------------------------------------------------------------------------

    def _look_for_snapshots(self, proposal: Proposal) -> list[Effect]:
        """Read the version-0 snapshots again, so that those of every proposal known by now are checked."""
        if self._state.has_begun or proposal.run not in self.evidence.proposals:
            return []
        try:
            partitions = run_config_from_json(proposal.config).partitions
        except ConfigError:
            self.evidence.counters["proposals_refused"] += 1
            return []
        self._snapshot_partitions = max(self._snapshot_partitions, partitions)
        return [Read(Stream.SNAPSHOTS, partition, Start.BEGINNING) for partition in range(partitions)]

    def wants_snapshots(self, partition: int) -> bool:
        """Whether version-0 snapshots of a partition are being read, to see which proposal is complete."""
        return partition < self._snapshot_partitions

    def _stop_snapshots(self) -> list[Effect]:
        count, self._snapshot_partitions = self._snapshot_partitions, 0
        return [StopReading(Stream.SNAPSHOTS, partition) for partition in range(count)]
