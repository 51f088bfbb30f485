"""A worker as a state machine: propose, join, follow, contribute.

    OPENING    read the ledger to its end; propose a run if there is none
    WAITING    the run exists and fits; load its newest parameters, send `Ready`
    MEMBER     the ledger holds our `Join`: start a clock when the rule allows, contribute, wait for the next version
    FINISHED   the run ended, or refused or removed us

Gradients come from outside through `contribute`; nothing here computes, sleeps or sends.
"""

from collections.abc import Iterator
from enum import Enum

from driftline.ledger import policy
from driftline.ledger.contradictions import proposal_problems
from driftline.ledger.follower import Model
from driftline.ledger.run_state import Folded, Group, RunState
from driftline.producers.clocks import SpentClocks, is_last, waiting_for
from driftline.producers.deltas import Base, DeltaEncoder, Gradient
from driftline.producers.member import Member, send_event
from driftline.producers.proposal import Offer, Proposed, propose
from driftline.schemas.effects import Effect, Finish
from driftline.schemas.model.layout import layout_differences
from driftline.schemas.records import Checkpoint, Contribution, Heartbeat, Leave, Ready, RunStart, Skip, TermStart
from driftline.schemas.records.identity import NO_HASH
from driftline.schemas.records.sample_range import Samples, without
from driftline.schemas.run.config import RunConfig
from driftline.schemas.run.config_json import differences
from driftline.schemas.run.other_settings import SETTINGS_OR_MODEL, exists_otherwise

REMOVED = "removed"
"""Reason of the end of a session whose group the ledger has removed."""

FINAL_MODEL_S = 10.0
"""Seconds to wait for the parameters of the last version after the run has ended."""


class Phase(Enum):
    """Where a worker stands."""

    OPENING = "opening"
    WAITING = "waiting"
    MEMBER = "member"
    FINISHED = "finished"


class WorkerSession(Member):
    """One incarnation of a worker.

    Args:
        name: the worker's name, unique in the run.
        incarnation: this start of it, 16 bytes; a new one for each session.
        offer: what this worker would start the run with, and what the run must fit.
        run_uuid: UUID of the run if ours is chosen, 16 bytes.
        gives_way: whether it leaves its place to a member of its name, instead of replacing it.
        state: the fold of the ledger to continue; None begins with the ledger.
    """

    def __init__(
        self,
        name: str,
        incarnation: bytes,
        offer: Offer,
        run_uuid: bytes,
        *,
        gives_way: bool = False,
        state: RunState | None = None,
    ) -> None:
        super().__init__(name, incarnation, state)
        self.offer = offer
        self.phase = Phase.OPENING
        self.waiting_share = 0.0
        self._run_uuid = run_uuid
        self._gives_way = gives_way
        self._proposed: Proposed | None = None
        self._spent = SpentClocks()
        self._now_s = 0.0
        self._newest_since_s = 0.0
        self._ended_at_s: float | None = None

    # -- inputs ------------------------------------------------------------------------------------------------------

    def begin(self) -> list[Effect]:
        """Return the first effects."""
        return self._note_finish([*super().begin(), *(self._started() if self.state.has_begun else [])])

    def _note_finish(self, effects: list[Effect]) -> list[Effect]:
        effects = super()._note_finish(effects)
        if self.finished is not None:
            self.phase = Phase.FINISHED
        return effects

    def _on_timer(self, now_s: float) -> list[Effect]:
        self._now_s = now_s
        closed = self._spent.close_interrupted(self._is_settled)
        return closed + self._beat(now_s) + self._over()

    def _on_new_model(self) -> list[Effect]:
        self._newest_since_s = self._now_s
        return self._ready() + self._over()

    # -- ledger ------------------------------------------------------------------------------------------------------

    def _on_ledger_end(self) -> list[Effect]:
        """Propose a run if there is none."""
        if self.phase is not Phase.OPENING or self.state.has_begun or self._proposed is not None:
            return []
        self._proposed = propose(self.offer, self._run_uuid, self.name, self.incarnation)
        problems = proposal_problems(self._proposed.record)
        if problems:  # every coordinator would drop it silently
            listing = "\n".join(f"  {problem}" for problem in problems)
            return [Finish("refused", f"nothing can be trained with these settings:\n{listing}")]
        return [*self._proposed.snapshots, self._proposed.event]

    def _on_ledger(self, folded: Folded) -> list[Effect]:
        if folded.record is None:
            return []
        if isinstance(folded.record, RunStart):
            effects = self._started()
        elif isinstance(folded.record, TermStart):
            effects = self._repeat()
        else:
            effects = []
        if isinstance(folded.record, Checkpoint):
            self.state.forget_before(folded.record.version)
        self._spent.forget(self._is_settled)
        return effects + self._ready() + self._over()

    def _started(self) -> list[Effect]:
        self.phase, start = Phase.WAITING, self.state.start
        problems = self._misfits()
        if problems:
            return [Finish("refused", exists_otherwise(start.name, SETTINGS_OR_MODEL, problems))]
        if self._proposed is not None and start.run != self._proposed.run:
            return [*self._proposed.tombstones()]
        return []

    def _misfits(self) -> list[str]:
        ours = self.offer
        return differences(ours.config, self.state.config) + layout_differences(ours.layout, self.state.layout)

    def _repeat(self) -> list[Effect]:
        """Repeat what the ledger does not hold yet: a new coordinator does not know it."""
        if not self.state.has_begun:
            return [] if self._proposed is None else [self._proposed.event]
        return [*self._send_ready(), *self._spent.repeat()]

    def _ready(self) -> list[Effect]:
        if self.phase is not Phase.WAITING:
            return []
        if self.group is not None:
            self.phase = Phase.MEMBER
            return []
        return self._send_ready() if not self.counters["ready_said"] else []

    def _send_ready(self) -> list[Effect]:
        newest = self.reader.follower.newest
        if self.phase is not Phase.WAITING or newest is None:
            return []
        self.counters["ready_said"] += 1
        run = self.state.start.run
        return [send_event(Ready(run=run, worker=self.name, incarnation=self.incarnation, version=newest.version))]

    def _over(self) -> list[Effect]:
        ended = self.state.ended
        if ended is not None:
            return [] if self._lacks_final_model() else [Finish(ended.reason, ended.failure)]
        mine = self.state.joined.get((self.name, self.incarnation))
        if mine is not None and mine in self.state.removed:
            return [Finish(REMOVED, f"worker {self.name!r} was removed from the run: {self.state.removed[mine]}")]
        if self._gives_way and self._is_replaced():
            return [Finish(REMOVED, f"worker {self.name!r} was removed from the run, and another has taken its name")]
        return []

    def _is_replaced(self) -> bool:
        """Whether another process of our name is a member now."""
        other = self.state.worker_group(self.name)
        return self.reader.is_caught_up and other is not None and other.incarnation != self.incarnation

    @property
    def may_return(self) -> bool:
        """Whether we were removed and no other process has taken our place: a new incarnation may try again."""
        return self.finished is not None and self.finished.reason == REMOVED and not self._is_replaced()

    def _lacks_final_model(self) -> bool:
        """Whether the last parameters of a run that ended well are still on their way, in another topic."""
        ended, newest = self.state.ended, self.reader.follower.newest
        if ended is None or ended.failure:
            return False
        if self._ended_at_s is None:
            self._ended_at_s = self._now_s
        behind = newest is None or newest.version < ended.version
        return behind and self._now_s - self._ended_at_s < FINAL_MODEL_S

    def _is_settled(self, event: Contribution | Skip) -> bool:
        return self.state.is_settled(event.group, event.clock)

    # -- clocks ------------------------------------------------------------------------------------------------------

    @property
    def group(self) -> Group | None:
        """Our replica group, once the ledger has our `Join`."""
        mine = self.state.joined.get((self.name, self.incarnation))
        return None if mine is None else self.state.groups.get(mine)

    @property
    def pace(self) -> int:
        """Our pace in versions: settled pace plus clocks under way."""
        group = self.group
        return -1 if group is None else group.settled_pace + len(self._spent)

    @property
    def samples(self) -> Samples:
        """The samples that the ledger leases to us and none of our unsettled clocks has read."""
        group = self.group
        held = () if group is None else self.state.leases.held(group.id)
        return without(held, self._spent.samples())

    @property
    def has_unsettled(self) -> bool:
        """Whether the ledger has yet to decide on a clock of ours."""
        return bool(self._spent)

    @property
    def lacks_samples(self) -> bool:
        """Whether the next clock has to be skipped: we have no samples, and none are about to be leased to us."""
        group, leases = self.group, self.state.leases
        return group is not None and leases.is_on and not leases.is_due(group.id) and not self.samples

    @property
    def clock(self) -> int:
        """The last clock that we spent."""
        group = self.group
        return 0 if group is None else group.settled_clock + len(self._spent)

    def may_start(self) -> Model | None:
        """Return the model to compute the next clock on, or None while the rule says wait."""
        newest = self.reader.follower.newest
        if self.group is None or newest is None or self.finished is not None:
            return None
        if self._spent.is_interrupted:
            return None  # until the next tick says what becomes of that clock
        config = self.state.config
        if is_last(self.state, self.pace) or not self._has_work(config):
            return None
        return newest if self._rule_allows(config, newest) and not self._is_too_old(config, newest) else None

    def _has_work(self, config: RunConfig) -> bool:
        """Whether there are samples for the next clock, or it has to be skipped so that the others can go on."""
        if not self.state.leases.is_on or self.samples:
            return True
        return config.consistency.closes_by_clock and self.lacks_samples

    def _rule_allows(self, config: RunConfig, newest: Model) -> bool:
        bounds, k = config.consistency, config.max_unsettled
        if policy.too_stale(self.state.version - newest.version, bounds):
            return False  # it would be rejected: better wait for parameters
        if not bounds.closes_by_clock:
            on_newest = sum(event.base_version >= newest.version for event in self._spent.events.values())
            return policy.count_starts(since_base=on_newest, unsettled=len(self._spent), bounds=bounds, k=k)
        return policy.clock_starts(
            pace=self.pace,
            settled=[one.settled_pace for one in self.state.groups.values()],
            published=newest.version,
            unsettled=len(self._spent),
            bounds=bounds,
            k=k,
        )

    def _is_too_old(self, config: RunConfig, newest: Model) -> bool:
        """Whether newer versions exist and this one has been here for longer than it may be computed on."""
        limit_s = config.consistency.max_age_s
        return limit_s > 0 and self.state.version > newest.version and self._now_s - self._newest_since_s > limit_s

    def waiting_for(self) -> str:
        """Return what the next clock waits for, and which workers."""
        has_parameters = self.reader.follower.newest is not None
        is_member = self.group is not None
        run = self.offer.config.name
        return waiting_for(self.state, run, self.name, self.pace, has_parameters=has_parameters, is_member=is_member)

    def contribute(self, model: Model, gradient: Gradient) -> Iterator[Effect]:
        """Spend the next clock on a gradient that was computed on ``model``, as the effects are taken.

        Raises:
            ValueError: the gradient has another shape than the layout; no clock is spent.
        """
        base = self._base(model)
        return self._spent.spend(base, DeltaEncoder(self.state.layout, base, gradient), gradient.cursor)

    def skip(self, model: Model, cursor: int, reason: str, samples: Samples = ()) -> Iterator[Effect]:
        """Spend the next clock without a gradient, as the effects are taken; what it has read is discarded."""
        self.counters["skips"] += 1
        return self._spent.spend_without_deltas(self._base(model), cursor, reason, samples)

    def _base(self, model: Model) -> Base:
        group = self.group
        if group is None:
            raise AssertionError("only a member spends clocks")
        head = self.state.heads.get(model.version, NO_HASH)  # forgotten: so old that it will be rejected
        return Base(run=self.state.start.run, group=group.id, clock=self.clock + 1, version=model.version, head=head)

    def leave(self, reason: str) -> list[Effect]:
        """Leave the run, so that the coordinator does not wait for a heartbeat."""
        if not self.state.has_begun or self.finished is not None:
            return []
        run = self.state.start.run
        return [send_event(Leave(run=run, worker=self.name, incarnation=self.incarnation, reason=reason))]

    # -- heartbeats --------------------------------------------------------------------------------------------------

    def _beat(self, now_s: float) -> list[Effect]:
        beats = super()._beat(now_s)
        return [*beats, *self._send_ready()] if beats else []

    def _heartbeat(self, version: int) -> Heartbeat:
        return Heartbeat(
            run=self.state.start.run,
            member=self.name,
            incarnation=self.incarnation,
            role="worker",
            version=version,
            clock=self.clock,
            waiting_share=self.waiting_share,
            counters=dict(self.counters + self.reader.follower.counters),
        )
