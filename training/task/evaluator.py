"""An evaluator as a state machine: follow published versions, report what was measured until the ledger holds it."""

from collections.abc import Mapping

from driftline.ledger.follower import Model
from driftline.ledger.run_state import Folded, RunState
from driftline.producers.member import Member, send_event
from driftline.schemas.effects import Effect, Finish
from driftline.schemas.records import NO_HASH, Checkpoint, EvaluationReport, Heartbeat, TermStart


class EvaluatorSession(Member):
    """A reader that measures versions. The run waits for it only before the verdict on the final version.

    Args:
        name: unique in the run.
        incarnation: this start of it, 16 bytes.
        state: the fold of the ledger to continue; None begins with the ledger.
    """

    def __init__(self, name: str, incarnation: bytes, state: RunState | None = None) -> None:
        super().__init__(name, incarnation, state)
        self._reported: dict[int, EvaluationReport] = {}

    def _on_ledger(self, folded: Folded) -> list[Effect]:
        effects: list[Effect] = []
        known = self.state.evaluations
        self._reported = {version: one for version, one in self._reported.items() if version not in known}
        if isinstance(folded.record, TermStart):
            effects += [send_event(one) for one in self._reported.values()]
        if isinstance(folded.record, Checkpoint):
            self.state.forget_before(folded.record.version)
        if self.state.ended is not None:
            effects.append(Finish(self.state.ended.reason, self.state.ended.failure))
        return effects

    def to_measure(self) -> Model | None:
        """Return the newest version if no evaluator has measured it yet."""
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
        """Report what was measured on a version."""
        report = EvaluationReport(
            run=self.state.start.run,
            evaluator=self.name,
            incarnation=self.incarnation,
            version=version,
            head=self.state.heads.get(version, NO_HASH),  # forgotten: no process waits for it any more
            metrics=dict(metrics),
        )
        self._reported[version] = report
        return [send_event(report)]

    def _heartbeat(self, version: int) -> Heartbeat:
        return Heartbeat(
            run=self.state.start.run,
            member=self.name,
            incarnation=self.incarnation,
            role="evaluator",
            version=version,
            clock=0,
            waiting_share=0.0,
        )
