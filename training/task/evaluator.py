"""An evaluator as a state machine: follow published versions, report what was measured until the ledger holds it."""

from collections import Counter
from collections.abc import Mapping

from driftline.broker.topics import Stream
from driftline.errors import IntegrityError
from driftline.ledger.follower import Model
from driftline.ledger.model_reader import ModelReader
from driftline.ledger.run_state import RunState
from driftline.schemas.codec import encode, peek_type
from driftline.schemas.effects import CaughtUp, Effect, Finish, Input, Received, Send, SendFailed, Timer
from driftline.schemas.records import NO_HASH, Checkpoint, EvaluationReport, Heartbeat, TermStart


class EvaluatorSession:
    """A reader that measures versions. It never keeps the run waiting, but for the verdict on the final version.

    Args:
        name: unique in the run.
        incarnation: this start of it, 16 bytes.
        state: the fold of the ledger to go on with; None begins with the ledger.
    """

    def __init__(self, name: str, incarnation: bytes, state: RunState | None = None) -> None:
        self.name = name
        self.incarnation = incarnation
        self.reader = ModelReader(state)
        self.state = self.reader.state
        self.finished: Finish | None = None
        self.counters: Counter[str] = Counter()
        self._reported: dict[int, EvaluationReport] = {}
        self._next_beat_s = 0.0

    def begin(self) -> list[Effect]:
        """Return the first effects."""
        return self.reader.begin()

    def on(self, event: Input) -> list[Effect]:
        """Take one input and return what it leads to."""
        if self.finished is not None:
            return []
        try:
            effects = self._dispatch(event)
        except IntegrityError as error:
            effects = [Finish("the log contradicts itself", str(error))]
        self.finished = next((effect for effect in effects if isinstance(effect, Finish)), None)
        return effects

    def _dispatch(self, event: Input) -> list[Effect]:
        match event:
            case Received(stream=Stream.LEDGER):
                return self._on_ledger(event)
            case Received(stream=Stream.PARAMETERS):
                self.reader.on_parameters(event)
            case CaughtUp():
                return self.reader.on_caught_up(event)
            case SendFailed():
                self.counters["sends_failed"] += 1
                return [] if peek_type(event.send.value) is Heartbeat else [event.send]
            case Timer():
                return self._beat(event.now_s)
        return []

    def _on_ledger(self, event: Received) -> list[Effect]:
        folded, effects = self.reader.on_ledger(event)
        known = self.state.evaluations
        self._reported = {version: one for version, one in self._reported.items() if version not in known}
        if isinstance(folded.record, TermStart):
            effects = [*effects, *(self._say(one) for one in self._reported.values())]
        if isinstance(folded.record, Checkpoint):
            self.state.forget_before(folded.record.version)
        if self.state.ended is not None:
            effects = [*effects, Finish(self.state.ended.reason, self.state.ended.failure)]
        return effects

    def to_measure(self) -> Model | None:
        """Return the newest version if nobody has measured it yet."""
        newest = self.reader.follower.newest
        if newest is None or newest.version in self._reported or newest.version in self.state.evaluations:
            return None
        return newest

    def waiting_for(self) -> str:
        """Say what is missing while there is nothing to measure."""
        if not self.state.has_begun:
            return "the run to start"
        newest = self.reader.follower.newest
        return f"a version newer than {-1 if newest is None else newest.version}"

    def report(self, version: int, metrics: Mapping[str, float]) -> list[Effect]:
        """Say what was measured on a version."""
        report = EvaluationReport(
            run=self.state.start.run,
            evaluator=self.name,
            incarnation=self.incarnation,
            version=version,
            head=self.state.heads.get(version, NO_HASH),  # forgotten: nobody waits for it any more
            metrics=dict(metrics),
        )
        self._reported[version] = report
        return [self._say(report)]

    @staticmethod
    def _say(report: EvaluationReport) -> Send:
        return Send(Stream.EVENTS, 0, encode(report))

    def _beat(self, now_s: float) -> list[Effect]:
        if not self.state.has_begun or now_s < self._next_beat_s:
            return []
        self._next_beat_s = now_s + self.state.config.tick_interval_s
        newest = self.reader.follower.newest
        beat = Heartbeat(
            run=self.state.start.run,
            member=self.name,
            incarnation=self.incarnation,
            role="evaluator",
            version=-1 if newest is None else newest.version,
            clock=0,
            waiting_share=0.0,
        )
        return [Send(Stream.EVENTS, 0, encode(beat))]
