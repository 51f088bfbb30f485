"""Runs of both brokers, proven by what can be read of them."""

import dataclasses

import numpy as np
import pytest

from driftline.broker.topics import Stream, run_topics, topic_name
from driftline.ledger.entering.reading import read_ledger
from driftline.ledger.follower import Model
from driftline.producers.deltas import Gradient
from driftline.replay.verify.reading import verify_run
from driftline.schemas.records import Delta
from driftline.schemas.run.consistency import Consistency
from driftline.testing import run_in_process
from tests.contract.support import Lab
from tests.support.verifiable import PARTITIONS, Log, compute, offer

STEPS = 5
WORKERS = ("a", "b", "c")
RUBBISH = (b"hello", b"", b"\xc3\x01" + b"\x07" * 40, None)


def disturbed(worker: str, model: Model, cursor: int) -> Gradient:
    """Return a gradient with a NaN, once."""
    gradient = compute(worker, model, cursor)
    if worker == "b" and cursor == 2:
        gradient.flat[3] = np.nan
    return gradient


def test_a_run_with_rubbish_in_every_topic_and_a_rejected_gradient_is_proven(lab: Lab) -> None:
    """Its deltas are sent again as well, one of them with other numbers under the same identity."""
    run = lab.unique("proven")
    admin, producer = lab.broker.admin(), lab.producer()
    topics = run_topics(run, PARTITIONS)
    admin.create(topics)
    admin.close()
    for spec in topics:
        for partition in range(spec.partitions):
            for value in RUBBISH:
                producer.send(spec.name, partition, value, key=b"rubbish")
    assert producer.flush(20) == 0
    outcome = run_in_process(lab.broker, offer(run, len(WORKERS), STEPS), WORKERS, disturbed, servers=2)
    log = Log.of(lab.broker, run)
    for partition in range(PARTITIONS):
        for value in log.values[Stream.DELTAS, partition]:
            producer.send(topic_name(run, Stream.DELTAS), partition, value, key=b"again")
    assert producer.flush(20) == 0
    report = verify_run(lab.broker, run, expect=outcome.state.heads[STEPS].hex())
    assert report.is_proven, report.first_bad
    assert (report.versions, report.equal, report.unproven) == (STEPS + 1, STEPS + 1, 0)
    assert (report.head, report.version) == (outcome.state.chain.head.hex(), STEPS)
    counts = report.counts
    assert (counts["rejections"], counts["ledger_undecodable"]) == (1, len(RUBBISH))
    assert counts["deltas_undecodable"] == 2 * PARTITIONS * len(RUBBISH)
    assert counts["deltas_used"] == counts["deltas_duplicates"] == PARTITIONS * (len(WORKERS) * STEPS - 1)
    assert counts["deltas_unused"] == 2 * PARTITIONS
    assert report.expected_head is not None
    assert report.expected_head.version == STEPS


@pytest.mark.parametrize(
    "bounds",
    [
        Consistency(mode="ssp", staleness=2),
        Consistency(mode="buffered", buffer=2, ahead=1),
        Consistency(mode="async", buffer=1, weighting="inverse"),
    ],
    ids=lambda bounds: bounds.mode,
)
def test_a_run_of_every_mode_is_proven(lab: Lab, bounds: Consistency) -> None:
    """Stale gradients, damped rates, versions that were applied and never published."""
    run = lab.unique(bounds.mode)
    plan = offer(run, len(WORKERS), 12, bounds=bounds)
    outcome = run_in_process(lab.broker, plan, WORKERS, compute, servers=2, pauses={"a": 0.05})
    report = verify_run(lab.broker, run)
    assert report.is_proven, report.first_bad
    assert (report.versions, report.equal) == (13, len(outcome.state.publish_points))
    assert (report.unproven, report.between) == (0, 13 - len(outcome.state.publish_points))


def test_a_copy_of_a_run_with_one_changed_delta_is_not(lab: Lab) -> None:
    """A log cannot be changed in place, but it can be copied."""
    run, copy = lab.unique("original"), lab.unique("copy")
    run_in_process(lab.broker, offer(run, 2, STEPS), ["a", "b"], compute)
    log = Log.of(lab.broker, run)
    log.write(lab.broker, copy)
    assert verify_run(lab.broker, copy).is_proven
    used = read_ledger(lab.broker, run).versions[3].uses[0]
    clock = (used.group, used.clock)
    offset, delta = next(one for one in log.find(Stream.DELTAS, 2, Delta) if (one[1].group, one[1].clock) == clock)
    changed = lab.unique("changed")
    log.reseal(Stream.DELTAS, 2, offset, dataclasses.replace(delta, payload=bytes(len(delta.payload))))
    log.write(lab.broker, changed)
    report = verify_run(lab.broker, changed)
    assert (report.integrity, report.numerically_equal) == (False, False)
    found = report.first_bad
    assert found is not None
    assert (found.stream, found.partition, found.offset, found.shard) == (Stream.DELTAS, 2, offset, 2)
    assert report.equal == found.version
