"""Topics that were deleted, made again or cut short: processes stop with the reason; none begins at version 0."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import pytest

from driftline.broker.port import Record
from driftline.broker.topics import Stream, run_topics, topic_name
from driftline.config.run_settings import RunSettings
from driftline.consumers.server.serving import serve, wait_for_run
from driftline.errors import BrokerError, RunRefused
from driftline.ledger.entering.reading import read_ledger
from driftline.ledger.entering.remains import check_ledger_kept
from driftline.ledger.follower import Model
from driftline.producers.deltas import Gradient
from driftline.producers.proposal import Offer
from driftline.testing import run_in_process
from driftline.testing.memory import MemoryBroker
from driftline.training.worker.topics import RunTopics
from tests.contract.test_runs import sgd_offer
from tests.support.newcomer import new_server
from tests.support.roles_in_threads import Ends
from tests.support.verifiable import PARTITIONS, compute, offer

RUN = "kept"
DEADLINE_S = 30.0


def run_of(steps: int, snapshot_every: int = 0, workers: int = 2) -> Offer:
    """Return what the run is."""
    made = offer(RUN, workers, steps)
    return replace(made, config=replace(made.config, snapshot_every=snapshot_every))


def stopped(steps: int = 9, snapshot_every: int = 0) -> MemoryBroker:
    """Return the log of a run that was stopped before its end."""
    broker = MemoryBroker()
    run_in_process(broker, run_of(steps, snapshot_every), ["ada", "bob"], compute)
    make_anew(broker, Stream.LEDGER, lambda records: records[:-1])  # all but the end of the run
    return broker


def make_anew(
    broker: MemoryBroker, stream: Stream, kept: Callable[[list[Record]], list[Record]] = lambda _: []
) -> None:
    """Delete a topic, and make it again with some of its records at most."""
    topic = topic_name(RUN, stream)
    records = {partition: kept(read_all(broker, topic, partition)) for partition in range(broker.log.topics()[topic])}
    broker.log.delete(topic)
    broker.admin().create(run_topics(RUN, PARTITIONS))
    for partition, values in records.items():
        for record in values:
            broker.log.append(topic, partition, record.value, key=record.key)


def read_all(broker: MemoryBroker, topic: str, partition: int) -> list[Record]:
    """Return what stands in a partition that was not trimmed."""
    found = [broker.log.read(topic, partition, one) for one in range(broker.log.bounds(topic, partition).end)]
    return [record for record in found if record is not None]


# -- the ledger ------------------------------------------------------------------------------------------------------


def test_a_ledger_that_was_made_again_begins_no_second_run_over_what_is_left_of_the_first() -> None:
    """It would start at version 0, silently, under the name of the run that was lost."""
    broker = stopped()
    make_anew(broker, Stream.LEDGER)
    begin: Mapping[str, Callable[[], object]] = {
        "worker": lambda: RunTopics(broker, RunSettings(run=RUN, workers=1, steps=9, partitions=PARTITIONS)).create(),
        "server": lambda: serve(broker, RUN, "new", stop=threading.Event()),
    }
    for role in begin.values():
        with pytest.raises(RunRefused, match=rf"{topic_name(RUN, Stream.LEDGER)} holds no start.*another name"):
            role()
    assert broker.log.bounds(topic_name(RUN, Stream.LEDGER), 0).end == 0


def test_a_ledger_that_lost_its_beginning_alone_is_not_taken_for_a_new_one_either() -> None:
    broker = stopped()
    make_anew(broker, Stream.LEDGER, lambda records: records[:1])  # a term, and no start
    with pytest.raises(RunRefused, match="holds no start"):
        check_ledger_kept(broker, RUN)


def test_a_topic_that_was_made_a_moment_ago_and_has_not_reached_every_node_holds_nothing() -> None:
    """Who asks such a node begins the run; what another topic holds is found all the same."""
    broker = MemoryBroker()
    broker.admin().create([spec for spec in run_topics(RUN, PARTITIONS) if not spec.name.endswith("parameters")])
    check_ledger_kept(broker, RUN)
    broker.log.append(topic_name(RUN, Stream.DELTAS), 1, b"left")
    with pytest.raises(RunRefused, match=r"deltas partition 1 was written up to offset 1, but its ledger"):
        check_ledger_kept(broker, RUN)


def test_a_server_that_finds_the_beginning_of_the_ledger_deleted_says_what_can_be_done() -> None:
    broker = stopped()
    broker.trim(topic_name(RUN, Stream.LEDGER), 0, 3)
    with pytest.raises(BrokerError, match=rf"{topic_name(RUN, Stream.LEDGER)}\[0\] has no offset 0.*another name"):
        serve(broker, RUN, "new", stop=threading.Event())


def test_a_run_that_goes_on_and_one_that_was_only_proposed_are_let_pass() -> None:
    broker = stopped()
    check_ledger_kept(broker, RUN)
    for stream in (Stream.LEDGER, Stream.DELTAS, Stream.PARAMETERS):
        make_anew(broker, stream)  # snapshots and events stay: that is what a proposal writes
    check_ledger_kept(broker, RUN)


def test_server_and_worker_stop_when_the_ledger_is_made_again_under_them() -> None:
    broker, ends = MemoryBroker(), Ends()
    broker.admin().create(run_topics(RUN, PARTITIONS))
    ends.play(broker, broker, sgd_offer(RUN, 1, steps=0))
    try:
        wait_until(lambda: read_ledger(broker, RUN).version >= 3)
        make_anew(broker, Stream.LEDGER)
        ends.wait(DEADLINE_S)
    finally:
        ends.stop.set()
    assert not any(thread.is_alive() for thread in ends.threads)
    assert ends.errors
    for error in ends.errors.values():
        assert topic_name(RUN, Stream.LEDGER) in str(error)
        assert "cannot go on without it" in str(error)
    assert not read_ledger(broker, RUN).has_begun


def wait_until(question: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not question():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def test_a_server_that_waits_for_a_run_of_which_a_topic_is_gone_says_which() -> None:
    broker = stopped()
    broker.log.delete(topic_name(RUN, Stream.SNAPSHOTS))
    with pytest.raises(RunRefused, match=rf"{topic_name(RUN, Stream.SNAPSHOTS)} is not there, other topics of it are"):
        wait_for_run(broker, RUN, stop=threading.Event(), patience_s=0.0)


# -- snapshots -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", [True, False], ids=["deleted", "made again"])
def test_a_server_that_cannot_find_the_first_version_says_so(gone: bool) -> None:  # noqa: FBT001 - a parameter
    broker = stopped()
    if gone:
        broker.log.delete(topic_name(RUN, Stream.SNAPSHOTS))
    else:
        make_anew(broker, Stream.SNAPSHOTS)
    finish = new_server(broker, RUN)
    assert finish.reason == "snapshots are missing"
    assert "version 0 cannot be rebuilt" in finish.failure
    assert topic_name(RUN, Stream.SNAPSHOTS) in finish.failure
    assert "another name" in finish.failure


def test_a_server_that_cannot_find_the_last_checkpoint_says_where_it_should_be() -> None:
    broker = stopped(snapshot_every=4)
    checkpoint = read_ledger(broker, RUN).checkpoint
    assert checkpoint is not None
    make_anew(broker, Stream.SNAPSHOTS)
    with pytest.raises(
        BrokerError, match=rf"{topic_name(RUN, Stream.SNAPSHOTS)}\[\d\] has no offset \d+.*another name"
    ):
        new_server(broker, RUN)


# -- what expired ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [Stream.EVENTS, Stream.PARAMETERS])
def test_records_that_expired_before_they_were_read_cost_no_run_its_way(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    """A process that slept longer than they are kept logs what it missed and goes on: it is sent again, or replaced."""
    plain = run_in_process(MemoryBroker(), run_of(12, workers=1), ["ada"], compute)
    broker, expired = MemoryBroker(), list[int]()
    outcome = run_in_process(broker, run_of(12, workers=1), ["ada"], partial(expire, broker, stream, expired))
    assert expired
    assert {one.failure for one in outcome.finishes.values()} == {""}
    assert outcome.state.states[12].state == plain.state.states[12].state
    assert f"{topic_name(RUN, stream)}[0] has no offset" in caplog.text


def expire(
    broker: MemoryBroker, stream: Stream, expired: list[int], worker: str, model: Model, cursor: int
) -> Gradient:
    """Have everything expire that stands in a stream, with something that no process could have read."""
    if model.version == 5 and not expired:
        topic = topic_name(RUN, stream)
        broker.go_away()
        for _ in range(2):
            broker.log.append(topic, 0, b"nothing")
        expired.append(broker.log.bounds(topic, 0).end)
        broker.trim(topic, 0, expired[0])
        broker.come_back()
    return compute(worker, model, cursor)
