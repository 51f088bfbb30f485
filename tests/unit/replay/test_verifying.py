"""``driftline verify`` around the core: what is read and when, what is said, how it ends."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner, Result

from driftline.broker.port import Bounds, EndReached, Position, Record
from driftline.broker.topics import Stream, run_topics, topic_name
from driftline.cli import main
from driftline.config.connection import Connection
from driftline.errors import BrokerError, BrokerUnreachable, TopicMissing, WaitTimeout
from driftline.replay.verify import reading as verifying
from driftline.replay.verify.reading import environment, verify_run
from driftline.replay.verify.verifier import Verifier
from driftline.testing.memory import MemoryBroker
from tests.support.verifiable import Log, trained

STEPS = 4


@pytest.fixture(scope="module")
def _clean() -> Log:
    return trained("proven", steps=STEPS)


@pytest.fixture
def log(_clean: Log) -> Log:
    """A copy of the log of a whole run."""
    return _clean.copy()


def written(log: Log, run: str = "proven") -> MemoryBroker:
    """Put a log into a broker of its own."""
    broker = MemoryBroker()
    log.write(broker, run)
    return broker


class _Reached:
    def __init__(self, broker: MemoryBroker) -> None:
        self.broker = broker


def command(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, *words: str) -> Result:
    """Run ``driftline verify`` against a broker in memory."""

    @contextmanager
    def readable(_connection: Connection, _report: object) -> Iterator[_Reached]:
        yield _Reached(broker)

    monkeypatch.setattr(Connection, "readable", readable)
    return CliRunner().invoke(main, ["verify", *words])


# -- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 3])
def test_partitions_are_proven_side_by_side_with_the_same_result(log: Log, threads: int) -> None:
    broker = written(log)
    report = verify_run(broker, "proven", threads=threads)
    alone = log.verify()
    assert report.is_proven
    assert report.to_dict() == {**alone.to_dict(), "environment": environment()}


def test_a_run_without_a_start_proves_nothing() -> None:
    broker = MemoryBroker()
    broker.admin().create(run_topics("empty", 4))
    report = verify_run(broker, "empty")
    assert (report.versions, report.equal, report.is_proven) == (0, 0, False)


def test_holes_that_compaction_leaves_are_read_over(log: Log) -> None:
    """Also at the end, where the last offsets hold no record."""
    broker = written(log)
    topic = topic_name("proven", Stream.SNAPSHOTS)
    producer = broker.producer()
    for partition in range(4):
        producer.send(topic, partition, b"not chosen", key=b"another")
        producer.send(topic, partition, None, key=b"another")
        assert producer.flush(5) == 0
        broker.compact(topic, partition, drop_tombstones=True)
    producer.close()
    assert verify_run(broker, "proven").is_proven
    for partition in range(4):
        broker.log.append(topic, partition, None, key=b"0")
        broker.compact(topic, partition, drop_tombstones=True)
    found = verify_run(broker, "proven").first_bad
    assert found is not None
    assert found.stream is Stream.SNAPSHOTS
    assert found.problem == "version 0 of a shard cannot be read: its master is missing"


def test_deltas_that_were_deleted_are_missing_and_a_ledger_without_its_beginning_is_none(log: Log) -> None:
    broker = written(log)
    broker.trim(topic_name("proven", Stream.DELTAS), 1, 3)
    found = verify_run(broker, "proven").first_bad
    assert found is not None
    assert (found.stream, found.partition, found.version) == (Stream.DELTAS, 1, 1)
    assert "from offset 3" in found.found
    broker.trim(topic_name("proven", Stream.LEDGER), 0, 2)
    found = verify_run(broker, "proven").first_bad
    assert found is not None
    assert (found.stream, found.offset, found.problem) == (
        Stream.LEDGER,
        2,
        "the ledger does not begin with its first record",
    )


def test_parameters_that_retention_deletes_are_not_missed(log: Log) -> None:
    broker = written(log)
    broker.trim(topic_name("proven", Stream.PARAMETERS), 2, 4)
    report = verify_run(broker, "proven")
    assert report.is_proven
    assert report.counts["parameters_equal"] == 4 * (STEPS + 1) - 4


def test_a_topic_with_too_few_partitions_is_named(log: Log) -> None:
    broker = written(log)
    admin = broker.admin()
    topic = topic_name("proven", Stream.DELTAS)
    admin.delete([topic])
    admin.create([spec for spec in run_topics("proven", 2) if spec.name == topic])
    with pytest.raises(TopicMissing, match=r"proven\.deltas has 2 partitions, so no partition [23]"):
        verify_run(broker, "proven")


def test_nothing_of_it_is_left_when_reading_fails(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """One partition's error ends the others, and their readers are closed."""
    broker = written(log)
    monkeypatch.setattr(verifying, "require_denormals", _refuse_second())
    with pytest.raises(BrokerError, match="the second"):
        verify_run(broker, "proven", threads=2)
    assert not [one for one in threading.enumerate() if one.name.startswith("verify")]


def _refuse_second() -> "object":
    calls: list[None] = []

    def require() -> None:
        calls.append(None)
        if len(calls) == 2:
            raise BrokerUnreachable("the second")

    return require


class _Scripted:
    """A reader that gives what it was told to."""

    def __init__(self, *found: Record | None) -> None:
        self._found = list(found)

    def read(self, _topic: str, _partition: int, _position: Position) -> int:
        return 0

    def stop(self, _topic: str, _partition: int) -> None:
        pass

    def poll(self, _timeout_s: float) -> Record | EndReached | None:
        return self._found.pop(0)

    def close(self) -> None:
        pass


class _Silent(_Scripted):
    def poll(self, _timeout_s: float) -> None:
        return None


def test_only_kafka_can_be_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller may need longer for the records than Kafka may."""
    monkeypatch.setattr(verifying, "READ_TIMEOUT_S", 0.05)
    first, second = (Record("t", 0, offset, None, b"", 0) for offset in (0, 1))
    verification = verifying._Verification(MemoryBroker(), "run", Verifier(), None, None)
    records = verification._records(_Scripted(first, None, second), Stream.DELTAS, 0, Bounds(0, 2))
    assert next(records)[0] == 0
    time.sleep(0.1)
    assert next(records)[0] == 1
    silent = verification._records(_Silent(), Stream.DELTAS, 0, Bounds(0, 2))
    with pytest.raises(WaitTimeout, match=r"driftline\.run\.deltas: nothing arrived"):
        next(silent)


def test_a_long_proof_says_how_far_it_is(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "SAY_EVERY_S", 0.0)
    said: list[str] = []
    verify_run(written(log), "proven", say=said.append)
    assert said[0].startswith("verifying proven: reading the ledger, at offset 0 of ")
    assert said[-1].startswith(f"verifying proven: recomputed {STEPS + 1} of {STEPS + 1} versions, ")


# -- the command -----------------------------------------------------------------------------------------------------


def test_a_proven_run_is_exit_code_0_and_the_object_says_what_was_compared(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = command(written(log), monkeypatch, "proven", "--json", "--expect", log.verify().head[:20])
    assert result.exit_code == 0, result.output
    seen = json.loads(result.stdout)
    assert (seen["versions"], seen["equal"], seen["unproven"]) == (STEPS + 1, STEPS + 1, 0)
    assert (seen["integrity"], seen["numerically_equal"], seen["first_bad"]) == (True, True, None)
    assert seen["environment"].keys() >= {"numpy", "python", "machine"}
    assert seen["expected_head"]["record"] == "RunEnd"
    assert command(written(log), monkeypatch, "proven").exit_code == 0


def test_a_changed_run_is_exit_code_3_and_names_the_place(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.flip(Stream.DELTAS, 3, 2)
    result = command(written(log), monkeypatch, "proven", "--json")
    assert result.exit_code == 3
    seen = json.loads(result.stdout)
    assert seen["integrity"] is False
    assert (seen["first_bad"]["stream"], seen["first_bad"]["partition"], seen["first_bad"]["offset"]) == (
        "deltas",
        3,
        2,
    )
    assert "driftline: run proven is not what its log says: deltas[3] offset 2, version " in result.stderr
    assert "BROKEN" in command(written(log), monkeypatch, "proven").stdout


def test_a_head_of_another_ledger_is_exit_code_3(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    result = command(written(log), monkeypatch, "proven", "--expect", "0" * 16)
    assert result.exit_code == 3
    assert "the ledger does not pass through the expected head" in result.stderr


@pytest.mark.parametrize("head", ["", "abc", "0" * 15, "0" * 65, "x" * 64])
def test_what_cannot_be_a_head_is_wrong_usage(log: Log, head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result = command(written(log), monkeypatch, "proven", "--expect", head)
    assert result.exit_code == 2
    assert "16 to 64 hexadecimal digits" in result.stderr


def test_a_run_that_is_not_there_is_wrong_usage_and_one_without_digests_is_a_failure(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = written(log)
    assert "did you mean proven?" in command(broker, monkeypatch, "prove").stderr
    assert command(broker, monkeypatch, "prove").exit_code == 2
    broker.admin().create(run_topics("empty", 4))
    result = command(broker, monkeypatch, "empty")
    assert result.exit_code == 1
    assert "nothing of run empty is proven" in result.stderr


def test_a_log_that_cannot_be_read_is_a_failure(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = written(log)
    broker.admin().delete([topic_name("proven", Stream.DELTAS)])
    result = command(broker, monkeypatch, "proven")
    assert result.exit_code == 1
    assert "driftline.proven.deltas" in result.stderr


def test_an_interruption_is_130_and_ends_every_thread(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Ctrl-C does while partitions are proven."""
    monkeypatch.setattr(verifying, "SAY_EVERY_S", 0.0)
    monkeypatch.setattr(verifying._Verification, "_progress", _interrupt)
    result = command(written(log), monkeypatch, "proven")
    assert result.exit_code == 130
    assert not [one for one in threading.enumerate() if one.name.startswith("verify")]


def _interrupt(*_: object) -> str:
    raise KeyboardInterrupt
