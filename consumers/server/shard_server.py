"""The server's own work: take deltas in, give receipts, apply the ledger's versions, publish.

State of a partition = fold(snapshots, ledger behind them, deltas that it names). A new owner starts from the last
checkpoint (or version 0) and folds what follows: the same bits as the owner before it, because nothing but the log goes
in. It reads no delta before it holds the snapshots, so that what it holds stays bounded.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

from driftline.broker.topics import Stream
from driftline.consumers.server.partition import Clock, HeldDelta, OwnedPartition, check_delta, not_finite
from driftline.consumers.server.shard import Shard
from driftline.consumers.server.shard_owner import ShardOwner
from driftline.consumers.server.state_digests import StateDigests
from driftline.errors import NonFiniteState
from driftline.ledger.run_state import Folded, RunState
from driftline.schemas.codec import encode
from driftline.schemas.digests import seal
from driftline.schemas.effects import Effect, Received, Send, Sent
from driftline.schemas.model.tensors import encode_fp32
from driftline.schemas.records import (
    NO_HASH,
    Checkpoint,
    Delta,
    Parameters,
    PartitionPosition,
    Publish,
    Receipt,
    ServerState,
    ShardDigest,
    TermStart,
    Version,
)

CLOCKS_AHEAD = 64
"""Clocks beyond the settled one whose deltas are held a group."""


class ShardServer(ShardOwner):
    """Owner of some partitions of deltas: takes them in and applies what the ledger says.

    Args:
        name: of the server process.
        incarnation: of the server process, 16 bytes.
        state: fold of the ledger, shared with the process.
    """

    def __init__(self, name: str, incarnation: bytes, state: RunState) -> None:
        super().__init__(name, incarnation, state)
        self._name = name
        self._incarnation = incarnation
        self.refused: dict[Clock, str] = {}
        self.digests = StateDigests()
        self.failure = ""
        self._next_beat_s = 0.0

    # -- ownership ---------------------------------------------------------------------------------------------------

    def on_revoked(self, partitions: Iterable[int]) -> list[Effect]:
        """Forget partitions; another server refolds them."""
        gone = set(partitions)
        effects = super().on_revoked(gone)
        self.digests.drop(place for place in self.digests if self._state.layout.partition_of(place[1]) in gone)
        return effects + self._repeat()  # receipts that only waited for a partition that is no longer ours

    def _loaded(self, owned: OwnedPartition) -> Iterable[Effect]:
        resumed = super()._loaded(owned)
        known = owned.version in self._state.publish_points
        return chain(resumed, self._published(owned, owned.version) if known else [], self._apply_all())

    def go_on(self) -> Iterator[Effect]:
        """Hand out the next piece of a snapshot, and apply what waited for it; called after every input."""
        if self.snapshots.is_busy and not self.failure:
            yield from self.snapshots.go_on()
            yield from self._apply_all()

    # -- ledger ------------------------------------------------------------------------------------------------------

    def on_ledger(self, folded: Folded) -> Iterator[Effect]:
        """A ledger record was read and folded into the shared state."""
        if folded.record is None:
            return
        yield from self._activate()
        if isinstance(folded.record, TermStart):
            yield from self._repeat()
        if isinstance(folded.record, Publish):
            yield from self._publish_idle(folded.record.version)
        if isinstance(folded.record, Checkpoint):
            yield from self._on_checkpoint(folded.record)
        yield from self._apply_all()
        self._forget()

    def _publish_idle(self, version: int) -> Iterator[Effect]:
        """Publish a version that was applied before it became a publish point."""
        current = [owned for owned in self.owned.values() if owned.is_loaded and owned.version == version]
        has_news = False
        for effect in chain.from_iterable(self._published(owned, version) for owned in current):
            has_news = True
            yield effect
        if has_news:
            yield self._server_state()

    def _repeat(self) -> list[Effect]:
        """Send again what the ledger does not yet hold: a new coordinator knows nothing of it."""
        effects: list[Effect] = []
        for clock in self._unsettled_clocks():
            effects += self._receipt(clock)
        effects += self.snapshots.repeat()
        return [*effects, self._server_state()] if self._state.has_begun else effects

    def _unsettled_clocks(self) -> list[Clock]:
        clocks = {clock for owned in self.owned.values() for clock in owned.held} | set(self.refused)
        return sorted(clock for clock in clocks if not self._state.is_settled(*clock))

    def _forget(self) -> None:
        state = self._state
        self.refused = {clock: reason for clock, reason in self.refused.items() if not state.is_settled(*clock)}
        self.digests.drop(place for place in self.digests if place[0] in state.states)
        for owned in self.owned.values():
            for clock in [clock for clock in owned.held if not self._is_needed(owned, clock)]:
                del owned.held[clock]

    def _is_needed(self, owned: OwnedPartition, clock: Clock) -> bool:
        used_at = self._state.used_at.get(clock)
        if used_at is not None:
            return used_at > owned.version
        return not self._state.is_settled(*clock)

    # -- deltas ------------------------------------------------------------------------------------------------------

    def on_delta(self, delta: Delta, received: Received) -> Iterable[Effect]:
        """Hold a sound delta that some version may need; count everything else.

        Raises:
            Undecodable: the record breaks the layout or its digest.
        """
        state, owned = self._state, self.owned.get(received.partition)
        if owned is None or received.value is None:
            self.counters["deltas_not_owned"] += 1
            return []
        clock = (delta.group, delta.clock)
        if self._is_unwanted(owned, clock):
            return []
        sound = check_delta(state.start.run, state.layout, received.partition, delta, received.value, received.offset)
        reason = not_finite(state.layout, sound)
        if reason:
            self.counters["deltas_refused"] += 1
            return self._refuse(clock, reason)
        return self._hold(owned, clock, sound)

    def _is_unwanted(self, owned: OwnedPartition, clock: Clock) -> bool:
        if not self._is_needed(owned, clock):
            self.counters["deltas_late"] += 1
            return True
        group = self._state.groups.get(clock[0])
        if clock[1] > (group.settled_clock if group else 0) + CLOCKS_AHEAD and clock not in self._state.used_at:
            self.counters["deltas_too_far_ahead"] += 1
            return True
        return False

    def _refuse(self, clock: Clock, reason: str) -> list[Effect]:
        if clock in self.refused:
            return []
        self.refused[clock] = reason
        return self._receipt(clock)

    def _hold(self, owned: OwnedPartition, clock: Clock, delta: HeldDelta) -> Iterable[Effect]:
        known = owned.held.setdefault(clock, {}).setdefault(delta.receipt.shard, delta)
        if known is not delta:
            same = known.receipt.digest == delta.receipt.digest
            self.counters["duplicates" if same else "conflicting_deltas"] += 1
            return []
        if not owned.holds(clock):
            return []
        if self._state.is_settled(*clock):  # refolding: the ledger has decided long ago
            return self._apply_all()
        return self._receipt(clock)

    def _receipt(self, clock: Clock) -> list[Effect]:
        """One receipt for all owned partitions, once each of them holds its deltas of this clock; or a refusal."""
        refusal = self.refused.get(clock, "")
        if not refusal and not all(owned.holds(clock) for owned in self.owned.values()):
            return []
        shards = [held.receipt for owned in self.owned.values() for held in owned.held.get(clock, {}).values()]
        receipt = Receipt(
            run=self._state.start.run,
            server=self._name,
            incarnation=self._incarnation,
            group=clock[0],
            clock=clock[1],
            shards=() if refusal else tuple(sorted(shards, key=lambda one: one.shard)),
            refusal=refusal,
        )
        return [Send(Stream.EVENTS, 0, encode(receipt))]

    # -- versions ----------------------------------------------------------------------------------------------------

    def _apply_all(self) -> Iterator[Effect]:
        """Apply every version whose deltas are here, partition by partition."""
        before = len(self.digests)
        try:
            for owned in list(self.owned.values()):
                while not self.failure and self._can_apply(owned):
                    yield from self._apply(owned, self._state.versions[owned.version + 1])
        except NonFiniteState as error:
            self.failure = str(error)
        if len(self.digests) != before or self.failure:
            yield self._server_state()

    def _can_apply(self, owned: OwnedPartition) -> bool:
        record = self._state.versions.get(owned.version + 1)
        if record is None or not owned.is_loaded or self.snapshots.is_writing(owned.partition):
            return False
        return owned.holds_all_of(record)

    def _apply(self, owned: OwnedPartition, record: Version) -> Iterable[Effect]:
        owned.apply(record)
        self.snapshots.begin(owned)
        return self._published(owned, record.version) if record.version in self._state.publish_points else []

    # -- publishing --------------------------------------------------------------------------------------------------

    def _published(self, owned: OwnedPartition, version: int) -> Iterable[Effect]:
        """Send parameters of the newest publish point, and keep digests to report that the ledger does not hold yet.

        Shard by shard: the first is on its way while the next is hashed, and no second copy of the model is made.
        """
        for index, shard in sorted(owned.shards.items()):
            if version not in self._state.states or version == self._state.last_publish:
                state, masters = shard.digests()
                is_newest = version == self._state.last_publish
                if version not in self._state.states:
                    digest = ShardDigest(shard=index, version=version, state=state, masters=masters)
                    self.digests.add(digest, published=is_newest)
                if is_newest:
                    yield self._parameters(shard, index, version, state)

    def _parameters(self, shard: Shard, index: int, version: int, state_digest: bytes) -> Effect:
        record = Parameters(
            digest=NO_HASH,
            version=version,
            head=self._state.heads[version],
            shard=index,
            codec="fp32",
            elements=len(shard.masters),
            state_digest=state_digest,
            payload=encode_fp32(shard.masters),
        )
        value, _ = seal(self._state.start.run, record)
        return Send(Stream.PARAMETERS, self._state.layout.partition_of(index), value, tell=True, about=(version, index))

    def on_sent(self, sent: Sent) -> list[Effect]:
        """Parameters or a snapshot are durable."""
        if sent.about is None:
            return super().on_sent(sent)
        return [self._server_state()] if self.digests.on_durable(sent.about) else []

    def on_timer(self, now_s: float) -> list[Effect]:
        """Report once a tick interval that this server lives, and what it has applied."""
        if not self._state.has_begun or self._state.ended is not None or now_s < self._next_beat_s:
            return []
        self._next_beat_s = now_s + self._state.config.tick_interval_s
        return [self._server_state(), *self.look_again()]

    def _server_state(self) -> Effect:
        version = min((owned.version for owned in self.owned.values()), default=0)
        state = ServerState(
            run=self._state.start.run,
            server=self._name,
            incarnation=self._incarnation,
            version=version,
            head=self._state.heads.get(version, NO_HASH),
            partitions=tuple(
                PartitionPosition(partition=owned.partition, position=owned.position) for owned in self.owned.values()
            ),
            shards=self.digests.reported(),
            failure=self.failure,
            counters=dict(self.counters),
        )
        return Send(Stream.EVENTS, 0, encode(state))
