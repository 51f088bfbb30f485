"""Metrics of a run, for every process that reads its ledger."""

import math
from collections.abc import Iterator, Mapping

from driftline.broker.topics import Stream
from driftline.ledger.rejection_reasons import OTHER, REASONS
from driftline.ledger.run_state import RunState
from driftline.telemetry import catalogue
from driftline.telemetry.metrics import Histogram, Metric, Sample


def run_samples(state: RunState) -> Iterator[Sample]:
    """Yield what the ledger says, as far as it was read."""
    totals = state.totals
    yield Sample(catalogue.VERSION, state.version)
    if state.has_begun and state.config.steps:
        yield Sample(catalogue.STEPS, state.config.steps)
    yield Sample(catalogue.TERM, state.chain.term)
    if state.checkpoint is not None:
        yield Sample(catalogue.CHECKPOINT, state.checkpoint.version)
    yield Sample(catalogue.BEGAN, state.began_at)
    yield Sample(catalogue.PASSED_OVER, state.passed_over)
    yield Sample(catalogue.ENDED, float(state.ended is not None))
    yield Sample(catalogue.FAILED, float(state.ended is not None and bool(state.ended.failure)))
    yield Sample(catalogue.MEMBERS, len(state.groups))
    if math.isfinite(state.loss):
        yield Sample(catalogue.LOSS, state.loss)
    yield from _evaluation(state)
    yield Sample(catalogue.SAMPLES, totals.samples)
    yield Sample(catalogue.STALENESS, Histogram(totals.staleness))
    yield Sample(catalogue.VOID, state.chain.void)
    yield Sample(catalogue.UNDECODABLE, totals.undecodable, {"stream": Stream.LEDGER.value})
    outcomes = {"used": totals.contributions, "skipped": totals.skips, "rejected": totals.rejections}
    for outcome, counts in outcomes.items():
        for worker, count in counts.items():
            yield Sample(catalogue.CONTRIBUTIONS, count, {"worker": worker, "outcome": outcome})
    reasons = {reason: totals.rejection_reasons[reason] for reason in (*REASONS.values(), OTHER)}
    yield from by_reason(catalogue.REJECTIONS, reasons)


def _evaluation(state: RunState) -> Iterator[Sample]:
    if state.evaluations:
        newest = state.evaluations[max(state.evaluations)]
        for name, value in newest.metrics.items():
            yield Sample(catalogue.EVALUATION, value, {"metric": name})


def by_reason(metric: Metric, counts: Mapping[str, int]) -> Iterator[Sample]:
    """Yield one sample a reason."""
    for reason, count in counts.items():
        yield Sample(metric, count, {"reason": reason})
