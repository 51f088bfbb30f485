"""A seed is all that it takes to see a failure again."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from driftline.testing.simulation.__main__ import main
from driftline.testing.simulation.actors import Cores
from driftline.testing.simulation.simulate import SimulationFailure, simulate
from tests.simulation.planted import NeverPublishes, server_with


def test_a_seed_gives_the_same_events_again() -> None:
    first, second = simulate(11), simulate(11)
    assert first == second
    assert first.fingerprint != simulate(12).fingerprint


def test_the_events_do_not_depend_on_the_hash_seed_of_the_process() -> None:
    command = [sys.executable, "-m", "driftline.testing.simulation", "--seed", "4"]
    outputs = {
        subprocess.run(
            command, check=True, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": hash_seed}
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_a_failure_names_its_seed_the_replay_and_the_last_events() -> None:
    with pytest.raises(SimulationFailure) as failure:
        simulate(0, Cores(server=server_with(shards=NeverPublishes)))
    text = str(failure.value)
    assert text.startswith("seed 0, event ")
    assert "replay: python -m driftline.testing.simulation --seed 0\n" in text
    assert len(re.findall(r"^ *\d+  ", text, re.MULTILINE)) == 40


def test_a_range_says_what_it_ran(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "0:2"]) == 0
    assert re.search(r"^2 seeds, \d{4,} events, \d+ faults of \d+ kinds$", capsys.readouterr().out, re.MULTILINE)


def test_a_range_goes_on_where_it_was_interrupted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    progress = tmp_path / "progress"
    assert main(["--seeds", "0:1", "--progress", str(progress)]) == 0
    assert progress.read_text() == "1\n"
    capsys.readouterr()
    assert main(["--seeds", "0:2", "--progress", str(progress)]) == 0
    assert "1 seeds, " in capsys.readouterr().out


def test_the_number_of_disturbed_events_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "0", "--events", "10"]) == 0
    assert "trace " in capsys.readouterr().out
