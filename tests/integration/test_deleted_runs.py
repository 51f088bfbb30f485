"""A run that is deleted under its members: they end, know why, and none begins again at version 0."""

import threading
import time
from collections.abc import Callable

import pytest

from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.topics import Stream, run_topics, topic_name
from driftline.consumers.server.serving import serve
from driftline.errors import RunRefused, TopicMissing
from driftline.ledger.entering.reading import read_ledger
from driftline.runs.catalogue import examine_deletion
from driftline.runs.commands import delete_run
from tests.contract.test_runs import sgd_offer
from tests.support.roles_in_threads import Ends

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

PATIENCE_S = 60.0


def at_work(broker: KafkaBroker, run: str) -> Ends:
    """Start a run that has no last version, and wait until it makes some."""
    admin = broker.admin()
    admin.create(run_topics(run, 4))
    admin.close()
    ends = Ends()
    ends.play(broker, broker, sgd_offer(run, 1, steps=0))
    deadline_s = time.monotonic() + PATIENCE_S
    while read_ledger(broker, run).version < 3:
        assert time.monotonic() < deadline_s, ends
        time.sleep(0.2)
    return ends


def left_of(broker: KafkaBroker, run: str) -> list[str]:
    """Return the topics of a run."""
    admin = broker.admin()
    try:
        return [name for name in admin.topics() if f".{run}." in name]
    finally:
        admin.close()


def test_a_run_that_is_deleted_by_command_ends_its_members_first(
    kafka_bootstrap: str, unique_name: Callable[[str], str]
) -> None:
    """They end well, and the reason says what happened."""
    broker, run = KafkaBroker(KafkaSettings(kafka_bootstrap)), unique_name("deleted")
    ends = at_work(broker, run)
    found = examine_deletion(broker, run)
    assert found.at_work == ("server-1", "worker-1")
    assert len(delete_run(broker, run, "ada")) == 5
    ends.wait(PATIENCE_S)
    assert not ends.errors
    assert {finish.reason for finish in ends.finishes.values()} == {"stopped by ada: the run is deleted"}
    assert set(ends.finishes) == {"server", "worker"}
    assert left_of(broker, run) == []


def test_topics_that_vanish_end_server_and_worker_with_their_names(
    kafka_bootstrap: str, unique_name: Callable[[str], str]
) -> None:
    """They were deleted without notice; no process makes them again."""
    broker, run = KafkaBroker(KafkaSettings(kafka_bootstrap)), unique_name("vanished")
    ends = at_work(broker, run)
    delete_run(broker, run)
    deadline_s = time.monotonic() + PATIENCE_S
    while len(ends.errors) < len(ends.threads) and any(thread.is_alive() for thread in ends.threads):
        assert time.monotonic() < deadline_s, ends
        time.sleep(0.1)
    assert ends.errors
    for error in ends.errors.values():
        assert isinstance(error, TopicMissing)
        assert run in str(error)
    assert left_of(broker, run) == []


def test_a_ledger_that_is_made_again_ends_server_and_worker_and_begins_no_run(
    kafka_bootstrap: str, unique_name: Callable[[str], str]
) -> None:
    """The name of the topic is the same, and what it holds is not: a run of that name does not start at version 0."""
    broker, run = KafkaBroker(KafkaSettings(kafka_bootstrap)), unique_name("again")
    ends = at_work(broker, run)
    ledger, admin = topic_name(run, Stream.LEDGER), broker.admin()
    admin.delete([ledger])
    admin.create(run_topics(run, 4))
    admin.close()
    ends.wait(PATIENCE_S)
    assert not any(thread.is_alive() for thread in ends.threads)
    assert ends.errors
    for error in ends.errors.values():
        assert ledger in str(error)
        assert "cannot go on without it" in str(error)
    with pytest.raises(RunRefused, match="holds no start of a run"):
        serve(broker, run, "server-2", stop=threading.Event())
    assert not read_ledger(broker, run).has_begun
    delete_run(broker, run)
