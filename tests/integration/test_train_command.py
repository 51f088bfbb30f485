"""``driftline train`` from outside: what it prints, what others see of its run, and how it ends."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import Trained
from tests.support.commands import Command, Commands, children_of, lives

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


@pytest.fixture
def commands(tmp_path: Path, kafka_bootstrap: str) -> Iterator[Commands]:
    """Nothing that a test starts outlives it."""
    commands = Commands(tmp_path, kafka_bootstrap)
    yield commands
    commands.end()


def endless(commands: Commands, run: str) -> Command:
    """Start a run that does not end by itself, and wait for its first versions."""
    words = ["--run", run, "--steps", "100000", "--workers", "2", "--servers", "1"]
    training = commands.start("train", "digits", *words)
    training.until(r"version [1-9]\d*/100000 ")
    return training


# -- a run that ends -------------------------------------------------------------------------------------------------


def test_the_last_line_of_train_is_the_object_of_status(two_servers: Trained, commands: Commands) -> None:
    """Every later reader of the log sees the same run."""
    done = commands.run("status", two_servers.run, "--json")
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    # Counters of members go on until their last breath.
    unsteady = {"servers", "workers", "duplicates", "undecodable"}
    assert {key: value for key, value in seen.items() if key not in unsteady} == {
        key: value for key, value in two_servers.status.items() if key not in unsteady
    }
    assert [one["name"] for one in seen["servers"]] == ["server-1", "server-2"]


def test_a_run_of_three_workers_settles_every_clock_of_each(two_servers: Trained) -> None:
    """Synchronous: each contributes to each version, none is late, none is lost."""
    seen = two_servers.status
    assert (seen["version"], seen["staleness"], seen["rejected"], seen["void"]) == (60, {"0": 180}, 0, 0)
    assert [(one["name"], one["contributions"], one["state"]) for one in seen["workers"]] == [
        (f"worker-{number}", 60, "done") for number in (1, 2, 3)
    ]
    assert sorted(shard for one in seen["servers"] for shard in one["shards"]) == [0, 1, 2, 3]
    assert seen["metrics_version"] == 60
    assert seen["metrics"]["accuracy"] > 0.85
    assert seen["ended"] == {"version": 60, "reason": "reached version 60", "failure": ""}


def test_progress_and_summary_are_for_people_and_on_stderr(two_servers: Trained) -> None:
    """With --json, stdout belongs to the object."""
    for words in (r"version 60/60", "60 contributions", two_servers.status["digest"], "driftline status"):
        assert words in two_servers.stderr


def test_a_run_that_ended_cannot_be_trained_further(two_servers: Trained, commands: Commands) -> None:
    """It says what to do instead."""
    done = commands.run("train", "digits", "--run", two_servers.run)
    assert done.returncode == 2
    assert f"driftline runs delete {two_servers.run}" in done.stderr


def test_every_delta_of_the_last_version_can_be_looked_at(two_servers: Trained, commands: Commands) -> None:
    """From the version to its deltas by their places; the difference to the version before; a place that is not."""
    version = json.loads(commands.run("show", two_servers.run, "--json").stdout)
    assert (version["version"], version["digest"]) == (60, two_servers.status["digest"])
    assert [one["worker"] for one in version["uses"]] == ["worker-1", "worker-2", "worker-3"]
    partition, offset = next(iter(version["positions"].items()))
    place = f"deltas/{partition}@{offset - 1}"
    delta = json.loads(commands.run("show", two_servers.run, place, "--json").stdout)
    share = next(one["coefficient"] for one in version["uses"] if one["worker"] in delta["verdict"])
    assert f"went into version 60 with coefficient {share:.7g}," in delta["verdict"]
    assert (delta["place"], delta["payload"]["digest"], delta["payload"]["not_finite"]) == (place, "right", 0)
    changed = json.loads(commands.run("show", two_servers.run, "59..60", "--json").stdout)
    assert all(0 < one["norm"] < 1 and not one["same_bits"] for one in changed["segments"])
    wrong = commands.run("show", two_servers.run, "ledger@99999")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("driftline: ledger@99999: there are offsets 0 to ")


def test_top_prints_one_frame_where_there_is_no_terminal(two_servers: Trained, commands: Commands) -> None:
    """Nothing of a screen in it: no codes, no keys."""
    done = commands.run("top", two_servers.run)
    assert done.returncode == 0, done.stderr
    assert "  ended  version 60/60  " in done.stdout
    assert "the run ends: reached version 60" in done.stdout
    assert "\x1b" not in done.stdout


# -- runs that do not ------------------------------------------------------------------------------------------------


def test_a_killed_worker_is_named_the_others_go_on_and_ctrl_c_ends_in_time(
    commands: Commands, unique_name: Callable[[str], str]
) -> None:
    """Then the run has not ended, and its ledger knows who is gone."""
    run = unique_name("interrupted")
    training = endless(commands, run)
    pids = children_of(training.process.pid)
    assert pids.keys() == {"server-1", "worker-1", "worker-2"}
    os.kill(pids["worker-1"], signal.SIGKILL)
    training.until("worker-1 was ended by SIGKILL; worker-2 goes on without it")
    training.until(" 1 worker ")
    top = json.loads(commands.run("top", run, "--json").stdout)
    assert top["versions_per_s"] > 0
    assert {one["name"]: one["state"] for one in top["workers"]} == {"worker-1": "removed", "worker-2": "live"}
    assert (top["servers"][0]["shards"], top["contradiction"]) == ([0, 1, 2, 3], "")
    began_s = time.monotonic()
    training.process.send_signal(signal.SIGINT)
    assert training.code(30) == 130
    assert time.monotonic() - began_s < 10
    assert f"run {run} has not ended: --run {run}, with the same settings, goes on with it" in training.said()
    assert "driftline: interrupted" in training.said()
    assert not any(lives(pid) for pid in pids.values())
    seen = json.loads(commands.run("status", run, "--json").stdout)
    assert (seen["state"], seen["ended"]) == ("running", None)
    assert [one["name"] for one in seen["workers"] if one["state"] == "removed"] == ["worker-1"]
    deleted = commands.run("runs", "delete", run, "--yes")
    assert deleted.returncode == 0, deleted.stderr
    assert run not in commands.run("runs").stdout


def test_processes_end_when_their_launcher_is_killed(commands: Commands, unique_name: Callable[[str], str]) -> None:
    """Nothing is left behind, and the run can be looked at."""
    run = unique_name("killed")
    training = endless(commands, run)
    pids = children_of(training.process.pid)
    assert len(pids) == 3
    training.process.kill()
    training.process.wait()
    deadline_s = time.monotonic() + 20
    while any(lives(pid) for pid in pids.values()):
        assert time.monotonic() < deadline_s, {name: pid for name, pid in pids.items() if lives(pid)}
        time.sleep(0.1)
    assert commands.run("status", run).returncode == 0
