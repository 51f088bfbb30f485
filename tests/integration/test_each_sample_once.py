"""Each sample is used exactly once an epoch although workers are killed and come back: counted from the ledger."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.reading import until_end
from driftline.broker.topics import Stream, topic_name
from driftline.ledger.entering.reading import read_ledger, run_names
from driftline.schemas.codec import decode
from driftline.schemas.records import LedgerRecord, Membership, Version
from tests.support.commands import Commands

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

EPOCHS, SAMPLES = 6, 1437

VERSIONS_BEFORE = 5
"""That are there when the worker is killed."""


@pytest.fixture
def commands(tmp_path: Path, kafka_bootstrap: str) -> Iterator[Commands]:
    """Nothing that a test starts outlives it."""
    commands = Commands(tmp_path, kafka_bootstrap)
    yield commands
    commands.end()


def records(broker: KafkaBroker, run: str) -> Iterator[LedgerRecord]:
    """Go through a ledger without a void record."""
    for found in until_end(broker, topic_name(run, Stream.LEDGER), 0, 0):
        record = decode(found.value)
        assert isinstance(record, LedgerRecord)
        yield record


def version(broker: KafkaBroker, run: str) -> int:
    """Return the newest version of a run that may not have begun."""
    return read_ledger(broker, run).version if run in run_names(broker) else 0


def test_a_worker_that_is_killed_and_started_again(
    commands: Commands, unique_name: Callable[[str], str], kafka_bootstrap: str
) -> None:
    """What it held goes to the others, and what it has used is not used again; the log proves the rest."""
    run = unique_name("killed")
    broker = KafkaBroker(KafkaSettings(bootstrap_servers=kafka_bootstrap))
    words = ["worker", "digits", "--run", run, "--workers", "2", "--epochs", str(EPOCHS)]
    server = commands.start("server", run, "--name", "server-1")
    stays, dies = (commands.start(*words, "--name", f"worker-{number}") for number in (1, 2))
    until_s = time.monotonic() + 120.0
    while version(broker, run) < VERSIONS_BEFORE:
        assert time.monotonic() < until_s, stays.said()
        time.sleep(0.2)
    os.kill(dies.process.pid, signal.SIGKILL)
    again = commands.start(*words, "--name", "worker-2")
    assert (stays.code(200), again.code(60), server.code(60)) == (0, 0, 0), stays.said() + again.said()
    ledger = list(records(broker, run))
    removed = [one.worker for record in ledger if isinstance(record, Membership) for one in record.removals]
    assert removed == ["worker-2"]
    uses = [use for record in ledger if isinstance(record, Version) for use in record.uses]
    used = Counter((one.epoch, place) for use in uses for one in use.samples for place in range(one.start, one.stop))
    assert used == {(epoch, place): 1 for epoch in range(EPOCHS) for place in range(SAMPLES)}
    assert commands.run("verify", run).returncode == 0
