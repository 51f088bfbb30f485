"""A server process as one state machine: the ledger's fold, the shards and the candidate for coordinator."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from driftline.broker.topics import Stream
from driftline.consumers.coordinator.coordinator import Coordinator
from driftline.consumers.server.shard_server import ShardServer
from driftline.errors import IntegrityError, Undecodable
from driftline.ledger.known_ends import OWNER
from driftline.ledger.run_state import RunState
from driftline.schemas.codec import decode, encode, peek_type
from driftline.schemas.effects import (
    CaughtUp,
    DeltasLost,
    Effect,
    EndsKnown,
    Finish,
    Input,
    PartitionsAssigned,
    PartitionsRevoked,
    Read,
    Received,
    Send,
    SendFailed,
    Sent,
    StopReading,
    Timer,
)
from driftline.schemas.records import (
    NO_RUN,
    Delta,
    Event,
    Parameters,
    Receipt,
    Snapshot,
    SnapshotReport,
    UndecodableReport,
)

FIRST_BYTES = 64
"""How much of an undecodable record is reported."""


SAID_ONCE = (Parameters, Receipt, Snapshot, SnapshotReport)
"""What must arrive although nothing repeats it soon: without it workers wait for a version, or the coordinator does."""


class Server:
    """One server of a run.

    Args:
        name: the server's name, unique in the run.
        incarnation: this start of it, 16 bytes.
        rng: source of nonces and back-off; seeded in the simulation.
        state: the fold of the ledger to go on with; None begins with the ledger.
    """

    def __init__(self, name: str, incarnation: bytes, rng: random.Random, state: RunState | None = None) -> None:
        self.name = name
        self.state = RunState() if state is None else state
        self.shards = ShardServer(name, incarnation, self.state)
        self.coordinator = Coordinator(name, incarnation, self.state, rng)
        self.counters: Counter[str] = Counter()
        self._owns_events = False
        self._finished = False

    def begin(self) -> list[Effect]:
        """Return the first effects: everything starts with the ledger."""
        return [Read(Stream.LEDGER, 0, self.state.next_offset)]

    def on(self, event: Input) -> Iterator[Effect]:
        """Take one input and return what it leads to, made as it is taken (see `driftline.schemas.effects`)."""
        if self._finished:
            return
        try:
            for effect in chain(self._dispatch(event), self.shards.go_on()):
                if not self._is_still_read(effect):
                    self._finished |= isinstance(effect, Finish)
                    yield effect
        except IntegrityError as error:
            self._finished = True
            yield Finish("the log contradicts itself", str(error))

    def _is_still_read(self, effect: Effect) -> bool:
        """Whether an effect would stop a reading that candidate or shards, which share it, still need."""
        if not isinstance(effect, StopReading) or effect.stream is not Stream.SNAPSHOTS:
            return False
        owned = self.shards.owned.get(effect.partition)
        return (owned is not None and not owned.is_loaded) or self.coordinator.wants_snapshots(effect.partition)

    def _dispatch(self, event: Input) -> Iterable[Effect]:
        match event:
            case Received():
                return self._received(event)
            case CaughtUp():
                return self._caught_up(event)
            case PartitionsAssigned():
                return self._assigned(event)
            case PartitionsRevoked():
                return self._revoked(event)
            case SendFailed():
                return self._send_failed(event)
            case _:
                return self._answered(event)

    def _answered(self, event: Sent | DeltasLost | Timer | EndsKnown) -> Iterable[Effect]:
        match event:
            case Sent():
                return self.shards.on_sent(event)
            case DeltasLost():
                return self.shards.on_deltas_lost(event)
            case EndsKnown(Stream.LEDGER):
                return self.shards.on_ledger_end(event.ends.get(0))
            case EndsKnown() if event.asker == OWNER:
                return self.shards.on_deltas_end(event.ends)
            case EndsKnown():
                return self.coordinator.on_ends(event)
            case Timer():
                return self.coordinator.on_timer(event.now_s) + self.shards.on_timer(event.now_s)

    # -- membership of the consumer groups ---------------------------------------------------------------------------

    def _assigned(self, event: PartitionsAssigned) -> Iterable[Effect]:
        if event.stream is Stream.EVENTS:
            self._owns_events = True
            return self.coordinator.on_assigned()
        return self.shards.on_assigned(event.partitions)

    def _revoked(self, event: PartitionsRevoked) -> list[Effect]:
        if event.stream is Stream.EVENTS:
            self._owns_events = False
            return self.coordinator.on_revoked()
        return self.shards.on_revoked(event.partitions)

    def _caught_up(self, event: CaughtUp) -> Iterable[Effect]:
        if event.stream is Stream.LEDGER:
            self.coordinator.on_ledger_caught_up()
            return self.shards.on_ledger_caught_up()
        if event.stream is Stream.SNAPSHOTS:
            return self.shards.on_snapshots_caught_up(event)
        return self.shards.on_deltas_caught_up(event) if event.stream is Stream.DELTAS else []

    def _send_failed(self, event: SendFailed) -> list[Effect]:
        self.counters["sends_failed"] += 1
        self.shards.counters["sends_failed"] += 1
        effects = self.coordinator.on_send_failed(event)
        tombstone = event.send.stream is Stream.SNAPSHOTS and event.send.value is None
        if tombstone or peek_type(event.send.value) in SAID_ONCE:
            effects = [*effects, event.send]
        return effects

    # -- records -----------------------------------------------------------------------------------------------------

    def _received(self, event: Received) -> Iterable[Effect]:
        if event.stream is Stream.LEDGER:
            return self._ledger(event)
        if event.stream is Stream.SNAPSHOTS and event.value is None:
            return []  # a tombstone: a proposal that was not chosen
        owned = self.shards.owned.get(event.partition)
        if event.stream is Stream.DELTAS and owned is not None:
            owned.position = max(owned.position, event.offset + 1)
        try:
            return self._decoded(event)
        except Undecodable as error:
            return self._undecodable(event, str(error))

    def _ledger(self, event: Received) -> Iterator[Effect]:
        undecodable = self.state.totals.undecodable
        folded = self.state.read(event.offset, event.value)
        yield from self.shards.on_ledger(folded)
        yield from self.coordinator.on_ledger(folded)
        if self.state.totals.undecodable != undecodable and self._owns_events:
            yield from self._undecodable(event, "no ledger record")
        if self.state.ended is not None:
            yield Finish(self.state.ended.reason, self.state.ended.failure)

    def _decoded(self, event: Received) -> Iterable[Effect]:
        record = decode(event.value)
        if event.value is None:
            raise AssertionError("decode() refuses a null value")
        if event.stream is Stream.DELTAS and isinstance(record, Delta):
            return self.shards.on_delta(record, event)
        if event.stream is Stream.SNAPSHOTS and isinstance(record, Snapshot):
            effects = self.coordinator.on_snapshot(record, event.value)
            return chain(effects, self.shards.on_snapshot(record, event.value, event.partition))
        if event.stream is Stream.EVENTS and isinstance(record, Event):
            return self.coordinator.on_event(record)
        raise Undecodable(f"a {type(record).__name__} does not belong into {event.stream}")

    def _undecodable(self, event: Received, reason: str) -> list[Effect]:
        """Leave it where it is, tell the coordinator, and go on."""
        self.counters["undecodable"] += 1
        self.counters[f"undecodable_{event.stream}"] += 1
        self.shards.counters["undecodable"] += 1
        report = UndecodableReport(
            run=self.state.start.run if self.state.has_begun else NO_RUN,
            reader=self.name,
            stream=event.stream.value,
            partition=event.partition,
            offset=event.offset,
            reason=reason,
            first_bytes=bytes((event.value or b"")[:FIRST_BYTES]),
        )
        return [Send(Stream.EVENTS, 0, encode(report))]
