"""Deltas that the ledger uses and the log does not hold any more: the server says so, and never waits for them."""

from dataclasses import dataclass, field

import pytest

from driftline.broker.topics import Stream, run_topics, topic_name
from driftline.ledger.known_ends import OWNER, KnownEnds
from driftline.ledger.run_state import RunState
from driftline.schemas.effects import AskEnds, Effect, Finish
from driftline.testing import run_in_process
from driftline.testing.memory import MemoryBroker
from tests.support.newcomer import new_server
from tests.support.small_ledger import CONFIG
from tests.support.verifiable import PARTITIONS, compute, offer

RUN = "kept"
DEADLINE_S = 30.0
QUESTION: list[Effect] = [AskEnds(Stream.DELTAS, OWNER)]


@dataclass
class Owner:
    """Of partitions 0 and 1, under a ledger that uses deltas up to offset 50 of either."""

    state: RunState = field(default_factory=RunState)

    def __post_init__(self) -> None:
        self.state.config, self.state.deltas_end = CONFIG, {0: 50, 1: 50}
        self.ends = KnownEnds(self.state)


def test_a_log_that_holds_all_that_the_ledger_uses_is_asked_about_nothing() -> None:
    owner = Owner()
    assert owner.ends.on_read_to_end(0, 50) == []
    assert owner.ends.on_read_to_end(7, 0) == []


def test_an_end_that_is_older_than_the_ledger_is_no_reason_to_stop() -> None:
    """A reader may have come to the end before the last deltas were there; what is asked now is what counts."""
    owner = Owner()
    assert owner.ends.on_read_to_end(0, 49) == QUESTION
    assert owner.ends.on_ends({0: 50, 1: 50}) == []


def test_what_the_ledger_says_after_the_question_is_not_compared_with_its_answer() -> None:
    owner = Owner()
    assert owner.ends.on_read_to_end(0, 49) == QUESTION
    owner.state.deltas_end[0] = 60
    assert owner.ends.on_ends({0: 55, 1: 50}) == []


def test_partitions_suspected_while_an_answer_is_due_get_a_question_of_their_own() -> None:
    """The answer that is due is older than what the ledger may have said of them."""
    owner = Owner()
    assert owner.ends.on_read_to_end(0, 49) == QUESTION
    assert owner.ends.on_read_to_end(1, 40) == []
    assert owner.ends.on_ends({0: 50, 1: 40}) == QUESTION
    (finish,) = owner.ends.on_ends({0: 50, 1: 40})
    assert isinstance(finish, Finish)


def test_an_answer_that_is_due_to_partitions_that_went_and_came_back_is_not_taken_for_a_new_one() -> None:
    owner = Owner()
    assert owner.ends.on_read_to_end(0, 49) == QUESTION
    owner.ends.forget({0})
    owner.state.deltas_end[0] = 60
    assert owner.ends.on_read_to_end(0, 55) == []
    assert owner.ends.on_ends({0: 55, 1: 50}) == QUESTION
    assert owner.ends.on_ends({0: 60, 1: 50}) == []


def test_a_kafka_that_cannot_be_asked_is_asked_again() -> None:
    owner = Owner()
    assert owner.ends.on_read_to_end(0, 49) == QUESTION
    assert owner.ends.on_ends({}) == QUESTION
    assert owner.ends.on_ends({0: 50, 1: 50}) == []


def test_proof_names_topic_partition_and_both_offsets_and_the_way_out() -> None:
    owner = Owner()
    owner.ends.on_read_to_end(1, 3)
    (finish,) = owner.ends.on_ends({0: 50, 1: 3})
    assert isinstance(finish, Finish)
    assert finish.reason == "deltas are missing"
    for word in ("deltas partition 1", "ends at offset 3", "offset 50", "begin a run of another name"):
        assert word in finish.failure


@pytest.mark.parametrize("kept", [0, 3])
def test_a_server_that_rebuilds_from_deltas_that_were_made_again_or_cut_short_stops(kept: int) -> None:
    """Nothing else would ever happen: the versions of the ledger wait for deltas that no worker will send again."""
    broker = MemoryBroker()
    run_in_process(broker, offer(RUN, 2, 12), ["ada", "bob"], compute)
    topic = topic_name(RUN, Stream.DELTAS)
    kept_values = {
        partition: [broker.log.read(topic, partition, offset) for offset in range(kept)]
        for partition in range(PARTITIONS)
    }
    cut_before_the_end(broker)
    broker.log.delete(topic)
    broker.admin().create(run_topics(RUN, PARTITIONS))
    for partition, records in kept_values.items():
        for record in records:
            assert record is not None
            broker.log.append(topic, partition, record.value)
    finish = new_server(broker, RUN)
    assert finish.reason == "deltas are missing"
    assert topic in finish.failure
    assert f"ends at offset {kept}" in finish.failure


def cut_before_the_end(broker: MemoryBroker) -> None:
    """Take away the last record of the ledger, the end of the run, behind which a server has nothing to rebuild."""
    topic = topic_name(RUN, Stream.LEDGER)
    bounds = broker.log.bounds(topic, 0)
    values = [broker.log.read(topic, 0, offset) for offset in range(bounds.end - 1)]
    broker.log.delete(topic)
    broker.admin().create(run_topics(RUN, PARTITIONS))
    for record in values:
        assert record is not None
        broker.log.append(topic, 0, record.value)
