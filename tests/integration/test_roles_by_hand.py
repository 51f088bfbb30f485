"""``driftline server`` and ``driftline worker`` by hand: in any order, each in its own process."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.commands import Commands

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

STEPS = 12


@pytest.fixture
def commands(tmp_path: Path, kafka_bootstrap: str) -> Iterator[Commands]:
    """Nothing that a test starts outlives it."""
    commands = Commands(tmp_path, kafka_bootstrap)
    yield commands
    commands.end()


def test_servers_and_workers_meet_whoever_comes_first(commands: Commands, unique_name: Callable[[str], str]) -> None:
    """A server before there is a run, then the workers, then one server more."""
    run = unique_name("roles")
    words = ["worker", "digits", "--run", run, "--workers", "2", "--steps", str(STEPS)]
    first = commands.start("server", run, "--name", "server-1")
    workers = [commands.start(*words, "--name", f"worker-{number}") for number in (1, 2)]
    first.until("server server-1 of run .* starts")
    second = commands.start("server", run, "--name", "server-2")
    assert [worker.code(120) for worker in workers] == [0, 0], [worker.said() for worker in workers]
    assert (first.code(30), second.code(30)) == (0, 0), first.said() + second.said()
    seen = json.loads(commands.run("status", run, "--json").stdout)
    assert (seen["version"], seen["state"]) == (STEPS, "ended")
    assert [one["contributions"] for one in seen["workers"]] == [STEPS, STEPS]
    assert seen["uuid"] is not None


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
