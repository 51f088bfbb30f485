"""Metrics of servers, workers and evaluators: every value comes from the state that the code decides by."""

from collections.abc import Iterator

import pytest

from driftline.broker.topics import Stream
from driftline.config.address import read_address, read_first_address
from driftline.config.problems import Problems
from driftline.consumers.server.metrics import server_samples
from driftline.consumers.server.server import Server
from driftline.errors import BrokerUnreachable
from driftline.ledger.entering.reading import read_ledger
from driftline.ledger.metrics import run_samples
from driftline.ledger.rejection_reasons import REASONS, reason_word
from driftline.runtime.shell import Shell
from driftline.schemas.effects import Received, Send, SendFailed
from driftline.telemetry import catalogue
from driftline.telemetry.catalogue import METRICS
from driftline.telemetry.metrics import Histogram, Kind, Sample, Summary
from driftline.testing.memory import MemoryBroker
from driftline.training.worker.metrics import member_samples, worker_samples
from tests.support.small_ledger import whole_run, write
from tests.support.small_model import small_run
from tests.support.still_run import StillRun


@pytest.fixture(scope="module")
def run() -> StillRun:
    """A run that stopped at version 5 of 40. No process plays it on."""
    run = small_run("small", steps=40, snapshot_every=2)
    run.play(until_version=5)
    return run


def values(samples: Iterator[Sample], name: str) -> dict[tuple[str, ...], object]:
    """Return the values of a metric by their own labels."""
    return {tuple(one.labels.values()): one.value for one in samples if one.metric.name == name}


# -- where they come from --------------------------------------------------------------------------------------------


def test_every_metric_has_a_value_in_a_run(run: StillRun) -> None:
    """The catalogue holds nothing that is never reported: a server, a worker and a shell report all of it."""
    shell = Shell(MemoryBroker(), "idle", Server("server-9", bytes(16), run._rng), "server-9")
    try:
        shell.traffic.count(Stream.LEDGER, "read", b"x")
        shell._errands.trims["done"] += 1
        samples = [*server_samples(run.servers["server-1"]), *worker_samples(run.workers["ada"]), *shell.samples()]
    finally:
        shell.close()
    told_of = {sample.metric for sample in samples} | {catalogue.LOG_LINES}
    assert told_of | {catalogue.HANDLING} == set(METRICS)  # no input was timed here
    for sample in samples:
        assert sample.labels.keys() == set(sample.metric.labels)
        assert isinstance(sample.value, Histogram) == (sample.metric.kind is Kind.HISTOGRAM)
        assert isinstance(sample.value, Summary) == (sample.metric.kind is Kind.SUMMARY)


def test_an_evaluators_metrics_are_of_the_run_and_of_the_parameters_it_has(run: StillRun) -> None:
    found = {sample.metric.name: sample.value for sample in member_samples(run.evaluator) if not sample.labels}
    assert (found["driftline_version"], found["driftline_model_version"]) == (5, 5)
    assert "driftline_clock" not in found


def test_a_servers_metrics_are_what_it_decides_by(run: StillRun) -> None:
    server = run.servers["server-2"]
    found = {sample.metric.name: sample.value for sample in server_samples(server) if not sample.labels}
    assert found["driftline_version"] == server.state.version == 5
    assert (found["driftline_steps"], found["driftline_members"], found["driftline_term"]) == (40, 2, 1)
    assert (found["driftline_partitions_owned"], found["driftline_shards_owned"]) == (1, 1)
    assert found["driftline_applied_version"] == min(one.version for one in server.shards.owned.values())
    assert found["driftline_coordinating"] == 0.0
    assert "driftline_pending_contributions" not in found
    assert found["driftline_samples_total"] == 5 * 48
    assert found["driftline_staleness_versions"] == Histogram({0: 10})
    first = {sample.metric.name: sample.value for sample in server_samples(run.servers["server-1"])}
    assert (first["driftline_coordinating"], first["driftline_leaderships_total"]) == (1.0, 1)
    assert first["driftline_reigns_total"] == first["driftline_leaderships_total"]


def test_contributions_and_rejections_are_counted_by_whose_and_why() -> None:
    """By the ledger, from its beginning: every reader reports the same."""
    broker = MemoryBroker()
    write(broker, "told", whole_run().values)
    state = read_ledger(broker, "told")
    assert values(run_samples(state), "driftline_contributions_total") == {
        ("worker-1", "used"): 3,
        ("worker-2", "used"): 1,
        ("worker-2", "skipped"): 1,
        ("worker-2", "rejected"): 1,
    }
    reasons = values(run_samples(state), "driftline_rejections_total")
    assert {reason for (reason,), count in reasons.items() if count} == {"not_finite"}
    assert len(reasons) == len(REASONS) + 1  # those that are 0 too, so that a first one is seen to come
    assert values(run_samples(state), "driftline_void_records_total") == {(): 1}
    assert values(run_samples(state), "driftline_run_ended") == {(): 1.0}
    assert values(run_samples(state), "driftline_run_failed") == {(): 0.0}


@pytest.mark.parametrize(
    ("sentence", "word"),
    [
        ("stale by 7 versions, at most 2 are allowed", "stale"),
        ("not finite: 1.weight in shard 0", "not_finite"),
        ("not whole after 24 ticks: receipts of 2 shards are missing", "not_whole"),
        ("its weight is nan, neither 0 nor a number from 1e-16 to 9e+15", "weight"),
        ("its base is no version 9 of this ledger", "unknown_base"),
        ("its deltas do not hash to its root", "root"),
        ("something that a later release says", "other"),
    ],
)
def test_reasons_become_few_words(sentence: str, word: str) -> None:
    """A label with a sentence in it would be a new series for each."""
    assert reason_word(sentence) == word


def test_what_is_undecodable_is_counted_by_stream() -> None:
    run = small_run("small", steps=40)
    run.play(until_version=2)
    server = run.servers["server-1"]
    list(server.on(Received(Stream.DELTAS, 0, 99, None, b"rubbish")))
    list(server.on(Received(Stream.EVENTS, 0, 999, None, b"rubbish")))
    found = values(server_samples(server), "driftline_undecodable_total")
    assert found == {("ledger",): 0, ("deltas",): 1, ("events",): 1, ("snapshots",): 0}


def test_failed_sends_are_counted_where_they_fail_and_reported_by_the_server() -> None:
    """Kafka is away for longer than a record may wait."""
    broker = MemoryBroker(delivery_timeout_s=0.05)
    run = small_run("small", steps=40)
    server = run.servers["server-1"]
    shell = Shell(broker, "small", server, "server-1")
    try:
        broker.go_away()
        shell.perform([Send(Stream.EVENTS, 0, b"x")])
        for _ in range(100):
            shell.step(0.01)
            if shell.traffic.failures:
                break
        assert values(iter(shell.samples()), "driftline_send_failures_total") == {(): 1}
        assert server.shards.counters["sends_failed"] == 1
    finally:
        broker.come_back()
        shell.close()


def test_a_failed_send_is_in_what_a_server_says_of_itself() -> None:
    """So that `status` and `top` show it."""
    run = small_run("small", steps=40)
    run.play(until_version=1)
    server = run.servers["server-1"]
    list(server.on(SendFailed(Send(Stream.EVENTS, 0, b"x"), str(BrokerUnreachable("away")))))
    assert server.shards.counters["sends_failed"] == 1


# -- the option ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (None, None),
        ("", None),
        ("9464", ("127.0.0.1", 9464)),
        (":9464", ("127.0.0.1", 9464)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),  # noqa: S104 - what a container asks for
        ("[::1]:9464", ("::1", 9464)),
    ],
)
def test_addresses_are_read(text: str | None, address: tuple[str, int] | None) -> None:
    problems = Problems()
    assert read_address("--metrics", text, problems) == address
    problems.check()


@pytest.mark.parametrize("text", ["here", "host:", "host:99999", "host:-1", "host:12a", "a b:1", "1:2:x"])
def test_no_address_is_refused_with_an_example(text: str) -> None:
    problems = Problems()
    assert read_address("--metrics", text, problems) is None
    with pytest.raises(Exception, match=r'is no address to listen on: write HOST:PORT, for example "0\.0\.0\.0:9464"'):
        problems.check()


@pytest.mark.parametrize(
    ("text", "address"), [(None, None), ("9464", ("127.0.0.1", 9464)), ("65530", None), ("0", None)]
)
def test_the_first_of_several_addresses_leaves_room_for_the_others(
    text: str | None, address: tuple[str, int] | None
) -> None:
    """A port that is chosen by the machine cannot be counted up from."""
    problems = Problems()
    assert read_first_address("--metrics", text, 7, problems) == address
    if text and address is None:
        (said,) = problems.found
        assert said.startswith(f"--metrics: {text!r}: 7 processes have a port each, counting up from the one that is")
        assert said.endswith("so it lies between 1 and 65529")
