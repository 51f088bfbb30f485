"""Metrics of a worker and of an evaluator, read from their sessions."""

from collections.abc import Iterator

from driftline.broker.topics import Stream
from driftline.consumers.server.metrics import run_samples
from driftline.ledger.follower import Follower
from driftline.producers.session import WorkerSession
from driftline.telemetry import catalogue
from driftline.telemetry.metrics import Sample
from driftline.training.task.evaluator import EvaluatorSession

PARAMETER_REASONS = {
    "parameters_refused": "refused",
    "early_versions_dropped": "early",
    "incomplete_versions_dropped": "incomplete",
}
"""Counter of a follower → reason of parameters that were dropped."""


def worker_samples(session: WorkerSession) -> Iterator[Sample]:
    """Yield the metrics of a worker: of the run, of the parameters that it reads, and of its own part."""
    group = session.group
    yield from run_samples(session.state)
    yield from _follower_samples(session.reader.follower)
    yield Sample(catalogue.CLOCK, session.clock)
    yield Sample(catalogue.WAITING, session.waiting_share)
    yield Sample(catalogue.UNSETTLED, 0 if group is None else session.clock - group.settled_clock)


def evaluator_samples(session: EvaluatorSession) -> Iterator[Sample]:
    """Yield the metrics of an evaluator: of the run, and of the parameters that it reads."""
    yield from run_samples(session.state)
    yield from _follower_samples(session.reader.follower)


def _follower_samples(follower: Follower) -> Iterator[Sample]:
    if follower.newest is not None:
        yield Sample(catalogue.MODEL_VERSION, follower.newest.version)
    yield Sample(catalogue.UNDECODABLE, follower.counters["undecodable"], {"stream": Stream.PARAMETERS.value})
    for counter, reason in PARAMETER_REASONS.items():
        yield Sample(catalogue.PARAMETERS_DROPPED, follower.counters[counter], {"reason": reason})
