"""Bugs put into the state machines on purpose, one promise broken by each: what the simulation must find.

Each is a handful of overridden methods, and data to the test that runs them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from driftline.consumers.coordinator.coordinator import Coordinator, Phase
from driftline.consumers.coordinator.evidence import Evidence
from driftline.consumers.server.owned import OwnedPartition
from driftline.consumers.server.server import Server
from driftline.consumers.server.shard_server import ShardServer
from driftline.ledger.chain import Chain
from driftline.ledger.follower import Follower
from driftline.ledger.run_state import RunState
from driftline.producers.next_clock import is_last
from driftline.producers.proposal import Offer
from driftline.producers.session import WorkerSession
from driftline.schemas.effects import Effect, Received, SendFailed
from driftline.schemas.model.tensors import is_finite
from driftline.schemas.records import (
    Contribution,
    Delta,
    EvaluationReport,
    Event,
    LedgerRecord,
    StopRequest,
    TermStart,
    Version,
)
from tests.simulation.actors import Cores
from tests.simulation.planting import Planted, server_with
from tests.simulation.scenario import Fault

# -- the ledger ------------------------------------------------------------------------------------------------------


class DecidesOnAcknowledgement(Coordinator):
    """Takes the next decision when its record is sent, not when it is read back."""

    def on_timer(self, now_s: float) -> list[Effect]:
        effects = super().on_timer(now_s)
        if self.phase is Phase.REIGNING and self._outstanding is not None:
            self._outstanding = None
            effects += self._next()
        return effects


class ReignsBeforeReadBack(Coordinator):
    """Writes behind its TermStart before it has read it."""

    def _claim(self) -> list[Effect]:
        effects = super()._claim()
        self._reign()
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

    def _reign(self) -> None:
        super()._reign()
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


# -- settling --------------------------------------------------------------------------------------------------------


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


# -- shards ----------------------------------------------------------------------------------------------------------


class TakesTheNewestRates(Evidence):
    """Lets everybody ask for the learning rates that were heard last."""

    def _hear_offer(self, event: Any) -> None:
        super()._hear_offer(event)
        if isinstance(event, Contribution):
            for clock, offer in self.offers.items():
                if isinstance(offer, Contribution):
                    self.offers[clock] = replace(offer, learning_rates=event.learning_rates)


class SumsAsDeltasArrive(ShardServer):
    """Adds up in the order of the log, not in that of the ledger."""

    @staticmethod
    def _terms(owned: OwnedPartition, uses: Any, shard: int) -> Any:
        arrived = sorted(uses, key=lambda use: owned.held[use.group, use.clock][shard].receipt.offset)
        return ShardServer._terms(owned, arrived, shard)


class NeverRepeatsReceipts(ShardServer):
    """Says nothing again to a new coordinator."""

    def _repeat(self) -> list[Effect]:
        return []


class NeverPublishes(ShardServer):
    """Applies versions and keeps them to itself."""

    def _published(self, owned: OwnedPartition, version: int) -> list[Effect]:
        del owned, version
        return []


class KeepsTheLastCopy(ShardServer):
    """Lets a later delta replace the first one of the same identity."""

    def _hold(self, owned: Any, clock: Any, delta: Any, checked: Any, offset: int) -> Iterable[Effect]:
        owned.held.get(clock, {}).pop(delta.shard, None)
        return super()._hold(owned, clock, delta, checked, offset)


class AppliesWhatIsThere(ShardServer):
    """Does not wait for all deltas that a version names."""

    def _can_apply(self, owned: OwnedPartition) -> bool:
        return owned.is_loaded and owned.version + 1 in self._state.versions

    @staticmethod
    def _terms(owned: OwnedPartition, uses: Any, shard: int) -> Any:
        there = [use for use in uses if shard in owned.held.get((use.group, use.clock), {})]
        return ShardServer._terms(owned, there, shard)

    @staticmethod
    def _buffers(owned: OwnedPartition, record: Version, shard: int) -> Any:
        if record.buffers_of < 0:
            return None
        use = record.uses[record.buffers_of]
        is_there = shard in owned.held.get((use.group, use.clock), {})
        return ShardServer._buffers(owned, record, shard) if is_there else None


class TakesTheLastBuffers(ShardServer):
    """Takes over the buffers that arrived last, not those of the contribution that the ledger names."""

    @staticmethod
    def _buffers(owned: OwnedPartition, record: Version, shard: int) -> Any:
        arrived = [owned.held[use.group, use.clock][shard] for use in record.uses if use.kind == "delta"]
        last = max(arrived, key=lambda held: held.receipt.offset, default=None)
        return None if last is None else (last.gradient, last.presence)


class AsksBuffersToBeFinite(ShardServer):
    """Refuses a delta because of what its buffers would be as numbers."""

    def on_delta(self, delta: Delta, received: Received) -> Iterable[Effect]:
        if self._state.layout is not None and not is_finite(np.frombuffer(delta.payload, "<f4")):
            return self._refuse((delta.group, delta.clock), "not finite")
        return super().on_delta(delta, received)


class SkipsTheTail(ShardServer):
    """Takes a partition over at the current version without folding what was before."""

    def _activate(self) -> Iterable[Effect]:
        before = set(self.owned)
        effects = super()._activate()
        for partition in set(self.owned) - before:
            self.owned[partition].version = self._state.version
        return effects


# -- sends and workers -----------------------------------------------------------------------------------------------


class StopsSharedReading(Server):
    """Lets a candidate that loses the events stop the reading that its shards are waiting for."""

    def _is_still_read(self, effect: Effect) -> bool:
        del effect
        return False


class DropsEarlyReports(Evidence):
    """Drops an evaluation that arrives before the ledger record of its version."""

    def _hear_report(self, event: EvaluationReport) -> None:
        if self._state.heads.get(event.version) == event.head:
            super()._hear_report(event)


class GivesUpUnreadDeltas(Evidence):
    """Counts ticks while the owners' versions keep up, although the head waits for deltas that they have not read."""

    def hear_tick(self, ticks_read: int) -> None:
        config = self._state.config
        if config is not None and all(
            ticks_read - self.heard.get(self.owners.get(partition, ("", b"")), 0) < config.gone_after_ticks
            and self.applied.get(partition, -9) >= self._state.version - 2
            for partition in range(config.partitions)
        ):
            self._hear_served_tick()


class HearsAnyRun(Evidence):
    """Believes before RunStart whatever is said, also by members of another run."""

    def hear(self, event: Event, ticks_read: int) -> None:
        if self._state.start is None:
            self._hear(event, ticks_read)
        else:
            super().hear(event, ticks_read)


class IgnoresRequestsToStop(Evidence):
    """Makes one version after the other, whoever asks for the end."""

    def _hear_stop(self, event: StopRequest, ticks_read: int) -> None:
        pass


class StopsAtOnce(Evidence):
    """Ends a run that is to be stopped although nobody has published its head yet."""

    def _hear_stop(self, event: StopRequest, ticks_read: int) -> None:
        super()._hear_stop(event, ticks_read)
        self.stop_tick = -1_000_000


class GivesUpReceipts(Server):
    """Does not send a receipt again when the send failed."""

    def _send_failed(self, event: SendFailed) -> list[Effect]:
        effects = super()._send_failed(event)
        return [effect for effect in effects if effect is not event.send]


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


STALLS = (Fault.STALL, Fault.PAUSE, Fault.COMPACT)
STRANGERS = (Fault.FOREIGN_RUN, Fault.DUPLICATE, Fault.STALL)
NEW_TERMS = (Fault.LOST_CLAIM, Fault.VOID_RECORD, Fault.DUPLICATE, Fault.STALL)
MOVES = (Fault.MOVE, Fault.ZOMBIE, Fault.CRASH_SERVER, Fault.PAUSE)
NEW_COORDINATORS = (Fault.MOVE, Fault.CRASH_SERVER, Fault.LOST_CLAIM, Fault.DUPLICATE)
CONFLICTS = (Fault.CONFLICTING_DELTA, Fault.DUPLICATE, Fault.STALL)

PLANTED = (
    Planted("decides on acknowledgement", "2", Cores(server=server_with(coordinator=DecidesOnAcknowledgement))),
    Planted("reigns before read-back", "2", Cores(server=server_with(coordinator=ReignsBeforeReadBack))),
    Planted("no parent check", "1", Cores(server=server_with(chain=NoParentCheck))),
    Planted("equal terms start", "1", Cores(server=server_with(chain=EqualTermStarts)), NEW_TERMS),
    Planted("forgets on TermStart", "9", Cores(server=server_with(coordinator=ForgetsOnTermStart)), NEW_TERMS),
    Planted("counts ticks it writes", "9", Cores(server=server_with(coordinator=CountsTicksItWrites))),
    Planted("settles twice", "3", Cores(server=server_with(evidence=SettlesTwice))),
    Planted("trusts announcements", "3", Cores(server=server_with(evidence=TrustsAnnouncements))),
    Planted("ignores roots", "3", Cores(server=server_with(evidence=IgnoresRoots)), CONFLICTS),
    Planted("takes the newest rates", "3", Cores(server=server_with(evidence=TakesTheNewestRates)), scripts=True),
    Planted("sums as deltas arrive", "4", Cores(server=server_with(shards=SumsAsDeltasArrive))),
    Planted(
        "never repeats receipts",
        "9",
        Cores(server=server_with(shards=NeverRepeatsReceipts)),
        NEW_COORDINATORS,
        seeds=80,
    ),
    Planted("never publishes", "9", Cores(server=server_with(shards=NeverPublishes))),
    Planted("keeps the last copy", "4", Cores(server=server_with(shards=KeepsTheLastCopy))),
    Planted("applies what is there", "4", Cores(server=server_with(shards=AppliesWhatIsThere))),
    Planted("takes the last buffers", "4", Cores(server=server_with(shards=TakesTheLastBuffers)), buffers=True),
    Planted("asks buffers to be finite", "3", Cores(server=server_with(shards=AsksBuffersToBeFinite)), buffers=True),
    Planted("skips the tail", "4", Cores(server=server_with(shards=SkipsTheTail)), MOVES),
    Planted("gives up receipts", "9", Cores(server=GivesUpReceipts)),
    Planted("stops shared reading", "9", Cores(server=StopsSharedReading)),
    Planted(
        "drops early reports", "9", Cores(server=server_with(evidence=DropsEarlyReports)), STALLS, crowd=True, seeds=160
    ),
    Planted("gives up unread deltas", "9", Cores(server=server_with(evidence=GivesUpUnreadDeltas)), (Fault.STALL,)),
    Planted("hears any run", "9", Cores(server=server_with(evidence=HearsAnyRun)), STRANGERS),
    Planted("ignores requests to stop", "9", Cores(server=server_with(evidence=IgnoresRequestsToStop)), stopped=True),
    Planted("stops at once", "9", Cores(server=server_with(evidence=StopsAtOnce)), stopped=True),
    Planted("says it once", "9", Cores(worker=SaysItOnce)),
    Planted("starts early", "7", Cores(worker=StartsEarly)),
    Planted("recomputes a spent clock", "3", Cores(worker=RecomputesASpentClock)),
    Planted("takes half a model", "5", Cores(worker=ReadsHalfModels)),
)
