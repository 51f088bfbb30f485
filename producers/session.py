"""A worker as a state machine: propose, join, follow, contribute.

    OPENING    read the ledger to its end; propose a run if there is none
    WAITING    the run exists and fits; load its newest parameters, say `Ready`
    MEMBER     the ledger holds our `Join`: start a clock when the rule allows, contribute, wait for the next version
    FINISHED   the run ended, or refused or removed us

The numbers (gradients) come from outside through `contribute`; nothing here computes, sleeps or sends.
"""

from collections import Counter
from collections.abc import Iterator
from enum import Enum

from driftline.broker.topics import Stream
from driftline.errors import IntegrityError
from driftline.ledger import policy
from driftline.ledger.follower import Model
from driftline.ledger.model_reader import ModelReader
from driftline.ledger.proposal_check import proposal_problems
from driftline.ledger.run_state import Folded, Group, RunState
from driftline.producers.deltas import Base, Cut, Gradient
from driftline.producers.next_clock import is_last, waiting_for
from driftline.producers.proposal import Offer, Proposed, propose
from driftline.producers.spent_clocks import SpentClocks
from driftline.schemas.codec import encode, peek_type
from driftline.schemas.effects import (
    CaughtUp,
    Effect,
    Finish,
    Input,
    Received,
    Send,
    SendFailed,
    Timer,
)
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


class WorkerSession:
    """One incarnation of a worker.

    Args:
        name: the worker's name, unique in the run.
        incarnation: this start of it, 16 bytes; a new one for each session.
        offer: what this worker would start the run with, and what the run must fit.
        run_uuid: UUID of the run if ours is chosen, 16 bytes.
        gives_way: whether it leaves its place to a member of its name, instead of replacing it.
        state: the fold of the ledger to go on with; None begins with the ledger.
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
        self.name = name
        self.incarnation = incarnation
        self.offer = offer
        self.reader = ModelReader(state)
        self.state = self.reader.state
        self.phase = Phase.OPENING
        self.finished: Finish | None = None
        self.waiting_share = 0.0
        self.counters: Counter[str] = Counter()
        self._run_uuid = run_uuid
        self._gives_way = gives_way
        self._proposed: Proposed | None = None
        self._spent = SpentClocks()
        self._next_beat_s = 0.0
        self._now_s = 0.0
        self._newest_since_s = 0.0
        self._ended_at_s: float | None = None

    # -- inputs ------------------------------------------------------------------------------------------------------

    def begin(self) -> list[Effect]:
        """Return the first effects."""
        return self._finishing([*self.reader.begin(), *(self._started() if self.state.has_begun else [])])

    def on(self, event: Input) -> list[Effect]:
        """Take one input and return what it leads to."""
        if self.finished is not None:
            return []
        try:
            effects = self._dispatch(event)
        except IntegrityError as error:
            effects = [Finish("the log contradicts itself", str(error))]
        return self._finishing(effects)

    def _finishing(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, Finish):
                self.finished, self.phase = effect, Phase.FINISHED
        return effects

    def _dispatch(self, event: Input) -> list[Effect]:
        match event:
            case Received(stream=Stream.LEDGER):
                folded, effects = self.reader.on_ledger(event)
                return effects + self._on_ledger(folded)
            case Received(stream=Stream.PARAMETERS):
                return self._on_new_model() if self.reader.on_parameters(event) else []
            case CaughtUp():
                effects = self.reader.on_caught_up(event)
                return effects + (self._opened() if event.stream is Stream.LEDGER else [])
            case SendFailed():
                self.counters["sends_failed"] += 1
                # The same bytes again: a clock is spent at its first byte. A heartbeat is followed by another one.
                return [] if peek_type(event.send.value) is Heartbeat else [event.send]
            case Timer():
                self._now_s = event.now_s
                return self._spent.interrupted(self._is_settled) + self._beat(event.now_s) + self._over()
        return []

    def _on_new_model(self) -> list[Effect]:
        self._newest_since_s = self._now_s
        return self._ready() + self._over()

    # -- ledger ------------------------------------------------------------------------------------------------------

    def _opened(self) -> list[Effect]:
        """The ledger has been read to its end: is there a run?"""
        if self.phase is not Phase.OPENING or self.state.has_begun or self._proposed is not None:
            return []
        self._proposed = propose(self.offer, self._run_uuid, self.name, self.incarnation)
        problems = proposal_problems(self._proposed.record)
        if problems:  # every coordinator would drop it without a word to us
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
        """A new coordinator knows nothing: say again what the ledger does not yet hold."""
        if not self.state.has_begun:
            return [] if self._proposed is None else [self._proposed.event]
        return [*self._say_ready(), *self._spent.repeated()]

    def _ready(self) -> list[Effect]:
        if self.phase is not Phase.WAITING:
            return []
        if self.group is not None:
            self.phase = Phase.MEMBER
            return []
        return self._say_ready() if not self.counters["ready_said"] else []

    def _say_ready(self) -> list[Effect]:
        newest = self.reader.follower.newest
        if self.phase is not Phase.WAITING or newest is None:
            return []
        self.counters["ready_said"] += 1
        ready = Ready(run=self.state.start.run, worker=self.name, incarnation=self.incarnation, version=newest.version)
        return [Send(Stream.EVENTS, 0, encode(ready))]

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
        """Whether somebody else of our name is a member now."""
        other = self.state.worker_group(self.name)
        return self.reader.is_caught_up and other is not None and other.incarnation != self.incarnation

    @property
    def may_return(self) -> bool:
        """Whether we were removed and nobody has taken our place: a new incarnation may try again."""
        return self.finished is not None and self.finished.reason == REMOVED and not self._is_replaced()

    def _lacks_final_model(self) -> bool:
        """Whether a run that ended well still owes us its last parameters, which come by another topic."""
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
        """What the ledger leases to us and none of our clocks under way has read."""
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
        """Say in words what the next clock waits for, and whom."""
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
        return self._spent.contribute(base, Cut(self.state.layout, base, gradient), gradient.cursor)

    def skip(self, model: Model, cursor: int, reason: str, samples: Samples = ()) -> Iterator[Effect]:
        """Spend the next clock without a delta; what it has read of the data is burned. As the effects are taken."""
        self.counters["skips"] += 1
        return self._spent.skip(self._base(model), cursor, reason, samples)

    def _base(self, model: Model) -> Base:
        group = self.group
        if group is None:
            raise AssertionError("only a member spends clocks")
        head = self.state.heads.get(model.version, NO_HASH)  # forgotten: so old that it will be rejected
        return Base(run=self.state.start.run, group=group.id, clock=self.clock + 1, version=model.version, head=head)

    def leave(self, reason: str) -> list[Effect]:
        """Say goodbye, so that nobody waits for our heartbeat."""
        if not self.state.has_begun or self.finished is not None:
            return []
        event = Leave(run=self.state.start.run, worker=self.name, incarnation=self.incarnation, reason=reason)
        return [Send(Stream.EVENTS, 0, encode(event))]

    # -- heartbeats --------------------------------------------------------------------------------------------------

    def _beat(self, now_s: float) -> list[Effect]:
        if not self.state.has_begun or self.state.ended is not None or now_s < self._next_beat_s:
            return []
        self._next_beat_s = now_s + self.state.config.tick_interval_s
        newest = self.reader.follower.newest
        beat = Heartbeat(
            run=self.state.start.run,
            member=self.name,
            incarnation=self.incarnation,
            role="worker",
            version=-1 if newest is None else newest.version,
            clock=self.clock,
            waiting_share=self.waiting_share,
            counters=dict(self.counters + self.reader.follower.counters),
        )
        return [Send(Stream.EVENTS, 0, encode(beat)), *self._say_ready()]
