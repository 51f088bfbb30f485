"""Bugs in what a coordinator believes, and so in how contributions settle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from driftline.consumers.coordinator.evidence import Evidence
from driftline.schemas.records import Contribution, EvaluationReport, Event, StopRequest
from tests.simulation.planted.planting import Planted, server_with
from tests.simulation.run.actors import Cores
from tests.simulation.run.scenario import Fault


class SettlesTwice(Evidence):
    """Offers the last settled clock again as long as it remembers it."""

    def pending(self, group_id: Any) -> list[int]:
        whole = super().pending(group_id)
        settled = self._state.groups[group_id].settled_clock
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
    """Lets everybody ask for the learning rates that were heard last."""

    def _add_offer(self, event: Any) -> None:
        super()._add_offer(event)
        if isinstance(event, Contribution):
            for clock, offer in self.offers.items():
                if isinstance(offer, Contribution):
                    self.offers[clock] = replace(offer, learning_rates=event.learning_rates)


class DropsEarlyReports(Evidence):
    """Drops an evaluation that arrives before the ledger record of its version."""

    def _add_evaluation(self, event: EvaluationReport) -> None:
        if self._state.heads.get(event.version) == event.head:
            super()._add_evaluation(event)


class GivesUpUnreadDeltas(Evidence):
    """Counts ticks while the owners' versions keep up, although the head waits for deltas that they have not read."""

    def add_tick(self, ticks_read: int) -> None:
        if not self._state.has_begun:
            return
        config = self._state.config
        if all(
            ticks_read - self.last_seen.get(self.owners.get(partition, ("", b"")), 0) < config.gone_after_ticks
            and self.applied.get(partition, -9) >= self._state.version - 2
            for partition in range(config.partitions)
        ):
            self._add_served_tick()


class BelievesAnyRun(Evidence):
    """Believes before RunStart every event, also of members of another run."""

    def add(self, event: Event, ticks_read: int) -> None:
        if not self._state.has_begun:
            self._add(event, ticks_read)
        else:
            super().add(event, ticks_read)


class IgnoresRequestsToStop(Evidence):
    """Makes one version after the other, whoever asks for the end."""

    def _add_stop(self, event: StopRequest, ticks_read: int) -> None:
        pass


class StopsAtOnce(Evidence):
    """Ends a run that is to be stopped although nobody has published its head yet."""

    def _add_stop(self, event: StopRequest, ticks_read: int) -> None:
        super()._add_stop(event, ticks_read)
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
