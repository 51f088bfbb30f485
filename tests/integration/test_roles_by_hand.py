"""``driftline server`` and ``driftline worker`` by hand: in any order, each in its own process."""

import contextlib
import json
import re
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.commands import Command, Commands

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

STEPS = 12


@pytest.fixture
def commands(tmp_path: Path, kafka_bootstrap: str) -> Iterator[Commands]:
    """Nothing that a test starts outlives it."""
    commands = Commands(tmp_path, kafka_bootstrap)
    yield commands
    commands.end()


def test_servers_and_workers_meet_in_any_order(commands: Commands, unique_name: Callable[[str], str]) -> None:
    """A server before there is a run, then the workers, then one server more. It serves its metrics."""
    run = unique_name("roles")
    words = ["worker", "digits", "--run", run, "--workers", "2", "--steps", str(STEPS)]
    first = commands.start("server", run, "--name", "server-1", "--metrics", "0")
    workers = [commands.start(*words, "--name", f"worker-{number}") for number in (1, 2)]
    first.until("server server-1 of run .* starts")
    second = commands.start("server", run, "--name", "server-2")
    assert told_version(first) >= 1
    assert [worker.code(120) for worker in workers] == [0, 0], [worker.said() for worker in workers]
    assert (first.code(30), second.code(30)) == (0, 0), first.said() + second.said()
    seen = json.loads(commands.run("status", run, "--json").stdout)
    assert (seen["version"], seen["state"]) == (STEPS, "ended")
    assert [one["contributions"] for one in seen["workers"]] == [STEPS, STEPS]
    assert seen["uuid"] is not None


def test_an_evaluator_beside_them_gives_the_run_its_metrics(
    commands: Commands, unique_name: Callable[[str], str]
) -> None:
    """It waits for the run, and the run for its verdict on the last version."""
    run = unique_name("measured")
    evaluator = commands.start("evaluator", "digits", "--run", run, "--name", "judge")
    evaluator.until("evaluator judge of run .* starts")
    server = commands.start("server", run)
    worker = commands.start("worker", "digits", "--run", run, "--workers", "1", "--steps", "60")
    assert (worker.code(120), server.code(30), evaluator.code(30)) == (0, 0, 0), evaluator.said()
    said = evaluator.until(r"evaluator judge: reached version 60; accuracy (0\.\d+), loss \S+ \(version 60\)")
    seen = json.loads(commands.run("status", run, "--json").stdout)
    assert seen["metrics_version"] == 60
    assert f"{seen['metrics']['accuracy']:.4f}" == said[1]
    assert seen["metrics"]["accuracy"] > 0.5


def told_version(server: Command) -> float:
    """Scrape a server until it tells a version above 0, and return that; 0 if its run ends before."""
    url = server.until(r"metrics at (http://\S+/metrics)")[1]
    pattern = re.compile(r'^driftline_version\{member="server-1",role="server",run="\S+"\} (\S+)$', re.MULTILINE)
    while server.process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - its own words
            found = pattern.search(answer.read().decode())
            if found is not None and float(found[1]) > 0:
                return float(found[1])
        time.sleep(0.02)
    return 0.0


def test_a_server_that_waits_for_a_run_stops_when_it_is_asked_to(
    commands: Commands, unique_name: Callable[[str], str]
) -> None:
    """SIGTERM is a clean end; Ctrl-C is an interruption."""
    for number, code in ((signal.SIGTERM, 0), (signal.SIGINT, 130)):
        server = commands.start("server", unique_name("nothing"))
        server.until("server server-.* starts")
        began_s = time.monotonic()
        server.process.send_signal(number)
        assert server.code(15) == code
        assert time.monotonic() - began_s < 10
