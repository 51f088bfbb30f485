"""Bugs in who leads a term and in what counts as a ledger record."""

from __future__ import annotations

from driftline.consumers.coordinator.coordinator import Coordinator, Phase
from driftline.consumers.coordinator.evidence import Evidence
from driftline.ledger.chain import Chain
from driftline.schemas.effects import Effect
from driftline.schemas.records import LedgerRecord, TermStart
from tests.simulation.planted.planting import Planted, server_with
from tests.simulation.run.actors import Cores
from tests.simulation.run.scenario import Fault


class DecidesOnAcknowledgement(Coordinator):
    """Takes the next decision when its record is sent, not when it is read back."""

    def on_timer(self, now_s: float) -> list[Effect]:
        effects = super().on_timer(now_s)
        if self.phase is Phase.LEADING and self._outstanding is not None:
            self._outstanding = None
            effects += self._next()
        return effects


class LeadsBeforeReadBack(Coordinator):
    """Writes behind its TermStart before it has read it."""

    def _claim(self) -> list[Effect]:
        effects = super()._claim()
        self._lead()
        self._outstanding = None
        return effects + self._next()


class NoParentCheck(Chain):
    """Takes any record of the current term, whatever it was written behind."""

    def _is_valid(self, record: LedgerRecord) -> bool:
        return record.term > self.term if isinstance(record, TermStart) else record.term == self.term


class EqualTermStarts(Chain):
    """Takes a second TermStart of the same term."""

    def _is_valid(self, record: LedgerRecord) -> bool:
        return record.term >= self.term if isinstance(record, TermStart) else super()._is_valid(record)


class ForgetsOnTermStart(Coordinator):
    """Knows only what it reads after its own TermStart, and misses what others repeated before."""

    def _lead(self) -> None:
        super()._lead()
        self.evidence = Evidence(self._state)


class CountsTicksItWrites(Coordinator):
    """Counts a tick when it is sent: an outage evicts everybody."""

    def _tick(self) -> list[Effect]:
        self._tick_outstanding = False
        effects = super()._tick()
        if effects:
            self._ticks_read += 1
            self._next_tick_s = self._now_s + 0.25
        return effects


NEW_TERMS = (Fault.LOST_CLAIM, Fault.VOID_RECORD, Fault.DUPLICATE, Fault.STALL)

LEDGER = (
    Planted("decides on acknowledgement", "2", Cores(server=server_with(coordinator=DecidesOnAcknowledgement))),
    Planted("leads before read-back", "2", Cores(server=server_with(coordinator=LeadsBeforeReadBack))),
    Planted("no parent check", "1", Cores(server=server_with(chain=NoParentCheck))),
    Planted("equal terms start", "1", Cores(server=server_with(chain=EqualTermStarts)), NEW_TERMS),
    Planted("forgets on TermStart", "9", Cores(server=server_with(coordinator=ForgetsOnTermStart)), NEW_TERMS),
    Planted("counts ticks it writes", "9", Cores(server=server_with(coordinator=CountsTicksItWrites))),
)
