"""Bugs in who leads a term and in what counts as a ledger record."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from driftline.broker.topics import Stream
from driftline.consumers.coordinator.coordinator import Coordinator, Phase
from driftline.consumers.coordinator.evidence import Evidence
from driftline.consumers.server.server import Server
from driftline.ledger.chain import Chain
from driftline.ledger.run_state import Folded, RunState
from driftline.schemas.codec import decode
from driftline.schemas.effects import Effect, Input, Send
from driftline.schemas.records import LedgerRecord, TermStart, Tick
from tests.simulation.planted.planting import Planted, server_with
from tests.simulation.run.actors import Cores
from tests.simulation.run.scenario import Fault


class DecidesOnAcknowledgement(Server):
    """Takes the next decision when its record is sent, not when it is read back."""

    claims = False

    def on(self, event: Input) -> Iterator[Effect]:
        for effect in super().on(event):
            yield effect
            if isinstance(effect, Send) and effect.stream is Stream.LEDGER:
                value = bytes(effect.value or b"")
                record = decode(value)
                if isinstance(record, LedgerRecord) and isinstance(record, TermStart) == self.claims:
                    yield from self.coordinator.on_ledger(Folded(-1, value, record))


class LeadsBeforeReadBack(DecidesOnAcknowledgement):
    """Writes behind its TermStart before it has read it."""

    claims = True


class CountsTicksItWrites(Server):
    """Counts a tick when it is sent: an outage removes all members."""

    def on(self, event: Input) -> Iterator[Effect]:
        for effect in super().on(event):
            yield effect
            if isinstance(effect, Send) and effect.stream is Stream.EVENTS:
                record = decode(bytes(effect.value or b""))
                if isinstance(record, Tick):
                    yield from self.coordinator.on_event(record)


class NoParentCheck(Chain):
    """Takes any record of the current term, whatever it was written behind."""

    def accept(self, record: LedgerRecord, value: bytes) -> bool:
        return super().accept(record if isinstance(record, TermStart) else replace(record, parent=self.head), value)


class EqualTermStarts(Chain):
    """Takes a second TermStart of the same term."""

    def accept(self, record: LedgerRecord, value: bytes) -> bool:
        self.term -= isinstance(record, TermStart) and record.term == self.term
        return super().accept(record, value)


class ForgetsOnTermStart(Coordinator):
    """Knows only what it reads after its own TermStart, and misses what others repeated before."""

    def __init__(self, name: str, incarnation: bytes, state: RunState, rng: random.Random) -> None:
        super().__init__(name, incarnation, state, rng)
        self.ledger = state

    def on_ledger(self, folded: Folded) -> list[Effect]:
        if self.phase is Phase.CLAIMING and isinstance(folded.record, TermStart):
            self.evidence = Evidence(self.ledger)
        return super().on_ledger(folded)


NEW_TERMS = (Fault.LOST_CLAIM, Fault.VOID_RECORD, Fault.DUPLICATE, Fault.STALL)

LEDGER = (
    Planted("decides on acknowledgement", "2", Cores(server=DecidesOnAcknowledgement)),
    Planted("leads before read-back", "2", Cores(server=LeadsBeforeReadBack)),
    Planted("no parent check", "1", Cores(server=server_with(chain=NoParentCheck))),
    Planted("equal terms start", "1", Cores(server=server_with(chain=EqualTermStarts)), NEW_TERMS),
    Planted("forgets on TermStart", "9", Cores(server=server_with(coordinator=ForgetsOnTermStart)), NEW_TERMS),
    Planted("counts ticks it writes", "9", Cores(server=CountsTicksItWrites)),
)
