"""Bugs in what servers and workers send and read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from driftline.consumers.server.server import Server
from driftline.ledger.follower import Follower
from driftline.ledger.run_state import RunState
from driftline.producers.clocks import is_last
from driftline.producers.proposal import Offer
from driftline.producers.session import WorkerSession
from driftline.schemas.effects import Effect, SendFailed
from tests.simulation.planted.planting import Planted
from tests.simulation.run.actors import Cores


class GivesUpReceipts(Server):
    """Does not send a receipt again when the send failed."""

    def _send_failed(self, event: SendFailed) -> list[Effect]:
        effects = super()._send_failed(event)
        return [effect for effect in effects if effect is not event.send]


class StopsSharedReading(Server):
    """Lets a candidate that loses the events stop the reading that its shards are waiting for."""

    def _is_still_read(self, effect: Effect) -> bool:
        del effect
        return False


class SaysItOnce(WorkerSession):
    """Repeats nothing when a new coordinator begins."""

    def _repeat(self) -> list[Effect]:
        return []


class StartsEarly(WorkerSession):
    """Starts the next clock on whatever version it has."""

    def may_start(self) -> Any:
        if self.group is None or self.finished is not None or is_last(self.state, self.pace):
            return None
        return self.reader.follower.newest


class RecomputesASpentClock(WorkerSession):
    """Announces a clock anew with other numbers when a new coordinator begins."""

    def _repeat(self) -> list[Effect]:
        self._spent.events = {clock: replace(one, cursor=one.cursor + 1) for clock, one in self._spent.events.items()}
        return super()._repeat()


class TakesHalfAModel(Follower):
    """Takes a version as complete when its first shard has come."""

    def _place(self, record: Any) -> bool:
        opened = self._open.get(record.version)
        if opened is not None:
            opened.missing.clear()
        return super()._place(record)


class ReadsHalfModels(WorkerSession):
    """Stands on a follower that takes half a model."""

    def __init__(
        self, name: str, incarnation: bytes, offer: Offer, run_uuid: bytes, state: RunState | None = None
    ) -> None:
        super().__init__(name, incarnation, offer, run_uuid, state=state)
        self.reader.follower = TakesHalfAModel(self.state)


SENDS = (
    Planted("gives up receipts", "9", Cores(server=GivesUpReceipts)),
    Planted("stops shared reading", "9", Cores(server=StopsSharedReading)),
    Planted("says it once", "9", Cores(worker=SaysItOnce)),
    Planted("starts early", "7", Cores(worker=StartsEarly)),
    Planted("recomputes a spent clock", "3", Cores(worker=RecomputesASpentClock)),
    Planted("takes half a model", "5", Cores(worker=ReadsHalfModels)),
)
