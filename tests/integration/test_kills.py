"""Processes of a run are killed, with SIGKILL, and the run arrives where it must: a sample of the kill matrix."""

import json
import subprocess
from pathlib import Path

import pytest

from driftline.launch.faults import parse_script
from tests.kills.__main__ import play
from tests.kills.matrix import MATRIX, POINTS, SAMPLE, Case
from tests.support.commands import DRIFTLINE


@pytest.mark.kafka
@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.name)
def test_every_promise_is_kept_when_processes_are_killed(case: Case, tmp_path: Path) -> None:
    """The same bits without servers and brokers, each sample once without workers; acknowledged against settled."""
    outcome = play(case, tmp_path)
    assert not outcome.broken, "\n".join(outcome.broken)
    assert all(one.hit for one in outcome.disturbances), list(map(str, outcome.disturbances))
    assert outcome.acknowledged > len(outcome.told.used) // 2


def test_the_whole_matrix_kills_at_ten_points() -> None:
    """Every case but the undisturbed one."""
    versions = {case.name: {one.version for one in parse_script(case.script)} for case in MATRIX if case.script}
    assert all(len(found) == POINTS for found in versions.values()), versions


@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_the_command_disturbs_what_it_started_and_proves_the_run(tmp_path: Path) -> None:
    """Broker, servers and workers of its own; the summary says what happened, and the proof comes behind it."""
    script = "kill coordinator@5 for 500ms, pause worker-1@10 for 500ms, kill broker-1@15 for 500ms"
    words = ["chaos", script, "digits", "--workers", "1", "--servers", "2", "--steps", "25", "--home", str(tmp_path)]
    done = subprocess.run([*DRIFTLINE, *words, "--json"], capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    summary, *proof = done.stdout.splitlines()
    happened = json.loads(summary)["chaos"]
    assert [one["fault"] for one in happened] == script.replace("500ms", "0.5s").split(", ")
    assert [len(one["hit"]) for one in happened] == [1, 1, 1]
    assert happened[1]["hit"] == ["worker-1"]
    assert happened[2]["hit"] == ["broker-1"]
    assert all(one["undone_s"] >= 0.5 and not one["failure"] for one in happened)
    assert any(line.startswith("integrity") and line.endswith("ok") for line in proof), done.stdout
