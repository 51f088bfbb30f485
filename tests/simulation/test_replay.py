"""A seed is all that it takes to see a failure again."""

import os
import re
import subprocess
import sys

import pytest

from tests.simulation.__main__ import main
from tests.simulation.planted.shards import NeverPublishes
from tests.simulation.run.actors import Cores
from tests.simulation.run.scenario import Scenario
from tests.simulation.seeds import runner
from tests.simulation.world.simulate import Report, SimulationFailure, simulate


def test_a_seed_gives_the_same_events_again() -> None:
    first, second = simulate(11), simulate(11)
    assert first == second
    assert first.fingerprint != simulate(12).fingerprint


def test_the_events_do_not_depend_on_the_hash_seed_of_the_process() -> None:
    command = [sys.executable, "-m", "tests.simulation", "--seed", "4"]
    outputs = {
        subprocess.run(
            command, check=True, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": hash_seed}
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_a_failure_names_its_seed_the_replay_and_the_last_events() -> None:
    with pytest.raises(SimulationFailure) as failure:
        simulate(0, Cores(server=NeverPublishes))
    text = str(failure.value)
    assert text.startswith("seed 0, event ")
    assert "replay: python -m tests.simulation --seed 0\n" in text
    assert len(re.findall(r"^ *\d+  ", text, re.MULTILINE)) == 40


def test_a_range_says_what_it_ran(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "4:6", "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^2 seeds, \d,\d{3} events, \d+ faults of \d+ kinds$", out, re.MULTILINE)
    assert re.search(r"^each at least [\d,]+ events and \d+ kinds of faults$", out, re.MULTILINE)


def test_a_range_names_each_seed_that_fails_with_its_replay(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And goes through the others: one bug must not hide the next."""
    monkeypatch.setattr(runner, "simulate", _fails_from_3_to_4)
    assert main(["--seeds", "2:6", "--jobs", "1"]) == 1
    out = capsys.readouterr().out
    assert "failed: seed 3, event 9: no end\n  replay: python -m tests.simulation --seed 3\n" in out
    assert "failed: seed 4: KeyError: 'no such group'\n  replay: python -m" in out
    assert out.endswith("2 of 4 seeds failed\n")


def _fails_from_3_to_4(plan: Scenario) -> Report:
    if plan.seed == 3:
        raise SimulationFailure("seed 3, event 9: no end\nreplay: ...\n1 2 3")
    if plan.seed == 4:
        raise KeyError("no such group")
    return simulate(plan)


def test_the_number_of_disturbed_events_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "0", "--events", "10"]) == 0
    assert "trace " in capsys.readouterr().out
