"""Metrics of a worker and of an evaluator, read from their sessions."""

from collections.abc import Iterator

from driftline.broker.topics import Stream
from driftline.ledger.follower import Follower
from driftline.ledger.metrics import run_samples
from driftline.producers.member import Member
from driftline.producers.session import WorkerSession
from driftline.telemetry import catalogue
from driftline.telemetry.metrics import Sample

PARAMETER_REASONS = {
    "parameters_refused": "refused",
    "early_versions_dropped": "early",
    "incomplete_versions_dropped": "incomplete",
}
"""Counter of a follower → reason of parameters that were dropped."""


def worker_samples(session: WorkerSession) -> Iterator[Sample]:
    """Yield the metrics of a worker: those of any member, and of its own part."""
    group = session.group
    yield from member_samples(session)
    yield Sample(catalogue.CLOCK, session.clock)
    yield Sample(catalogue.WAITING, session.waiting_share)
    yield Sample(catalogue.UNSETTLED, 0 if group is None else session.clock - group.settled_clock)


def member_samples(member: Member) -> Iterator[Sample]:
    """Yield the metrics of any member: of the run, and of the parameters that it reads."""
    yield from run_samples(member.state)
    yield from _follower_samples(member.reader.follower)


def _follower_samples(follower: Follower) -> Iterator[Sample]:
    if follower.newest is not None:
        yield Sample(catalogue.MODEL_VERSION, follower.newest.version)
    yield Sample(catalogue.UNDECODABLE, follower.counters["undecodable"], {"stream": Stream.PARAMETERS.value})
    for counter, reason in PARAMETER_REASONS.items():
        yield Sample(catalogue.PARAMETERS_DROPPED, follower.counters[counter], {"reason": reason})
