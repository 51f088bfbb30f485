"""Bugs in what a coordinator believes, and so in how contributions settle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from driftline.consumers.coordinator.evidence import Evidence
from driftline.ledger.run_state import RunState
from driftline.schemas.records import Contribution, EvaluationReport, Event, Proposal, StopRequest
from tests.simulation.planted.planting import Planted, server_with
from tests.simulation.run.actors import Cores
from tests.simulation.run.scenario import Fault


class EvidenceOfLedger(Evidence):
    """Evidence that a bug can compare with the ledger."""

    def __init__(self, state: RunState) -> None:
        super().__init__(state)
        self.ledger = state


class SettlesTwice(EvidenceOfLedger):
    """Offers the last settled clock again as long as it remembers it."""

    def pending(self, group_id: Any) -> list[int]:
        whole = super().pending(group_id)
        settled = self.ledger.groups[group_id].settled_clock
        return [settled, *whole] if whole and settled else whole

    def forget_settled(self) -> None:
        offers = dict(self.offers)
        super().forget_settled()
        self.offers = {**offers, **self.offers}


class TrustsAnnouncements(Evidence):
    """Uses a contribution before its receipts cover every shard."""

    def is_whole(self, clock: Any) -> bool:
        return clock in self.offers and not self.refusal(clock)


class IgnoresRoots(Evidence):
    """Never compares the deltas' digests with the root of the contribution."""

    def refusal(self, clock: Any) -> str:
        return self.refusals.get(clock, "")


class TakesTheNewestRates(Evidence):
    """Lets every contribution ask for the learning rates of the newest one."""

    def add(self, event: Event, ticks_read: int) -> None:
        super().add(event, ticks_read)
        if isinstance(event, Contribution):
            for clock, offer in self.offers.items():
                if isinstance(offer, Contribution):
                    self.offers[clock] = replace(offer, learning_rates=event.learning_rates)


class DropsEarlyReports(EvidenceOfLedger):
    """Drops an evaluation that arrives before the ledger record of its version."""

    def add(self, event: Event, ticks_read: int) -> None:
        if not isinstance(event, EvaluationReport) or self.ledger.heads.get(event.version) == event.head:
            super().add(event, ticks_read)


class GivesUpUnreadDeltas(EvidenceOfLedger):
    """Counts every tick of live owners, although the head waits for deltas that they have not read."""

    def add_tick(self, ticks_read: int) -> None:
        if self.ledger.has_begun:
            self.ends = dict.fromkeys(range(self.ledger.config.partitions), 0)
        super().add_tick(ticks_read)


class BelievesAnyRun(EvidenceOfLedger):
    """Believes before RunStart every event, also of members of another run."""

    def __init__(self, state: RunState) -> None:
        super().__init__(state)
        self.early: list[tuple[Event, int]] = []

    def add(self, event: Event, ticks_read: int) -> None:
        if self.ledger.has_begun or isinstance(event, Proposal):
            super().add(event, ticks_read)
        else:
            self.early.append((event, ticks_read))

    def forget_settled(self) -> None:
        super().forget_settled()
        while self.ledger.has_begun and self.early:
            event, ticks_read = self.early.pop(0)
            super().add(replace(event, run=self.ledger.start.run), ticks_read)


class IgnoresRequestsToStop(Evidence):
    """Makes one version after the other, although it was asked for the end."""

    def add(self, event: Event, ticks_read: int) -> None:
        if not isinstance(event, StopRequest):
            super().add(event, ticks_read)


class StopsAtOnce(Evidence):
    """Ends a run that is to be stopped although its head is not published yet."""

    def add(self, event: Event, ticks_read: int) -> None:
        super().add(event, ticks_read)
        if isinstance(event, StopRequest):
            self.stop_tick = -1_000_000


STALLS = (Fault.STALL, Fault.PAUSE, Fault.COMPACT)
STRANGERS = (Fault.FOREIGN_RUN, Fault.DUPLICATE, Fault.STALL)
CONFLICTS = (Fault.CONFLICTING_DELTA, Fault.DUPLICATE, Fault.STALL)

SETTLING = (
    Planted("settles twice", "3", Cores(server=server_with(evidence=SettlesTwice))),
    Planted("trusts announcements", "3", Cores(server=server_with(evidence=TrustsAnnouncements))),
    Planted("ignores roots", "3", Cores(server=server_with(evidence=IgnoresRoots)), CONFLICTS),
    Planted("takes the newest rates", "3", Cores(server=server_with(evidence=TakesTheNewestRates)), scripts=True),
    Planted(
        "drops early reports", "9", Cores(server=server_with(evidence=DropsEarlyReports)), STALLS, crowd=True, seeds=160
    ),
    Planted("gives up unread deltas", "9", Cores(server=server_with(evidence=GivesUpUnreadDeltas)), (Fault.STALL,)),
    Planted("believes any run", "9", Cores(server=server_with(evidence=BelievesAnyRun)), STRANGERS),
    Planted("ignores requests to stop", "9", Cores(server=server_with(evidence=IgnoresRequestsToStop)), stopped=True),
    Planted("stops at once", "9", Cores(server=server_with(evidence=StopsAtOnce)), stopped=True),
)
