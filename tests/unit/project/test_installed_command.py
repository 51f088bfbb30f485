"""The command line's own promises: it answers at once, and every ending has its exit code."""

import errno
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from driftline import __version__
from driftline.cli import COMMANDS, LazyGroup, main
from driftline.errors import (
    BrokerUnreachable,
    ConfigError,
    DriftlineError,
    IntegrityError,
    RunEnded,
    RunRefused,
    UsageError,
    WaitTimeout,
)


def ending_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> Result:
    """Run ``driftline status`` with a command that raises ``error`` in its place."""

    @click.command
    def status() -> None:
        raise error

    monkeypatch.setattr(LazyGroup, "get_command", lambda *_: status)
    return CliRunner().invoke(main, ["status"])


def test_processes_of_a_command_log_as_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """`train` starts servers and workers; afterwards the environment is as it was."""
    seen = []

    @click.command
    def status() -> None:
        seen.append(os.environ.get("DRIFTLINE_LOG_FORMAT"))

    monkeypatch.setattr(LazyGroup, "get_command", lambda *_: status)
    for before, flags in (("json", []), ("json", ["--log-format", "text"]), (None, ["--log-format", "json"])):
        environment = {"DRIFTLINE_LOG_FORMAT": before}
        assert CliRunner().invoke(main, [*flags, "status"], env=environment).exit_code == 0
    assert seen == ["json", "text", "json"]
    assert "DRIFTLINE_LOG_FORMAT" not in os.environ


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DriftlineError("m"), 1),
        (BrokerUnreachable("m"), 1),
        (RunEnded("m"), 1),
        (WaitTimeout("m"), 1),
        (UsageError("m"), 2),
        (ConfigError(["m"]), 2),
        (RunRefused("m"), 2),
        (IntegrityError("m"), 3),
    ],
)
def test_our_errors_become_one_line_and_their_exit_code(
    error: DriftlineError, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No traceback for what the user can mend."""
    result = ending_with(error, monkeypatch)
    assert (result.exit_code, result.stderr, result.stdout) == (code, "driftline: m\n", "")


def test_every_problem_of_a_configuration_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """All at once, a line each."""
    result = ending_with(ConfigError(["workers: 0 is below 1", "mode: 'snyc' is unknown"]), monkeypatch)
    assert result.stderr == "driftline: workers: 0 is below 1\nmode: 'snyc' is unknown\n"


def test_an_interruption_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a shell expects after Ctrl-C."""
    result = ending_with(KeyboardInterrupt(), monkeypatch)
    assert (result.exit_code, result.stderr) == (130, "driftline: interrupted\n")


def test_a_missing_extra_is_a_wrong_setup_and_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server has no torch; a command that trains names what to install."""
    result = ending_with(ModuleNotFoundError("No module named 'torch'", name="torch.nn"), monkeypatch)
    assert result.exit_code == 2
    assert "torch.nn is not installed" in result.stderr
    assert "'driftline[train]'" in result.stderr


@pytest.mark.parametrize(
    "fault",
    [ValueError("m"), ModuleNotFoundError("m", name="driftline.missing"), OSError(errno.ENOSPC, "m")],
    ids=repr,
)
def test_a_fault_of_ours_keeps_its_traceback(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing unexpected is swallowed; Python itself ends with 1."""
    result = ending_with(fault, monkeypatch)
    assert result.exception is fault


@pytest.mark.parametrize("fault", [EOFError("m"), BrokenPipeError(errno.EPIPE, "m")], ids=repr)
def test_a_broken_pipe_that_is_not_the_output_is_shown(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child process that died is a failure with a traceback, not a reader that has seen enough."""
    result = ending_with(fault, monkeypatch)
    assert result.exit_code == 1
    assert type(fault).__name__ in result.stderr
    assert "Traceback" in result.stderr


@pytest.mark.parametrize(
    ("flags", "level"), [([], "WARNING"), (["-v"], "INFO"), (["-vv"], "DEBUG"), (["-vvvv"], "DEBUG")]
)
def test_verbosity_sets_how_much_is_logged(flags: list[str], level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but warnings unless asked for."""

    @click.command
    def status() -> None:
        logging.getLogger("driftline.x").info("seen %d", 3)

    monkeypatch.setattr(LazyGroup, "get_command", lambda *_: status)
    result = CliRunner().invoke(main, [*flags, "--log-format", "json", "status"])
    assert logging.getLogger("driftline").level == getattr(logging, level)
    assert [json.loads(line)["message"] for line in result.stderr.splitlines()] == (["seen 3"] if flags else [])
    assert result.stdout == ""


def test_details_show_where_an_error_of_ours_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message comes last, after the traceback that -vv asks for."""

    @click.command
    def status() -> None:
        raise IntegrityError("m")

    monkeypatch.setattr(LazyGroup, "get_command", lambda *_: status)
    result = CliRunner().invoke(main, ["-vv", "status"])
    assert "Traceback" in result.stderr
    assert result.stderr.endswith("\ndriftline: m\n")


@pytest.mark.parametrize(("typed", "meant"), [("trian", "train"), ("stats", "status"), ("run", "runs")])
def test_a_misspelt_command_is_answered_with_the_near_one(typed: str, meant: str) -> None:
    """Usage errors are click's, with exit code 2."""
    result = CliRunner().invoke(main, [typed])
    assert result.exit_code == 2
    assert f"No such command '{typed}'. Did you mean '{meant}'?" in result.stderr


def test_a_command_that_is_nothing_like_any_lists_them() -> None:
    """There is always a way out."""
    result = CliRunner().invoke(main, ["quux"])
    assert result.exit_code == 2
    assert ", ".join(COMMANDS) in result.stderr


def test_an_unknown_option_is_a_usage_error() -> None:
    """Before any command is looked up."""
    result = CliRunner().invoke(main, ["--verson"])
    assert result.exit_code == 2
    assert "No such option" in result.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_overview_exists(name: str) -> None:
    """The table names modules that nothing else imports by name."""
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"Usage: main {name}")


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    """Processor time, because the machine may be busy with something else."""
    code = """
import sys, time
from driftline.cli import main
main(["--help"], standalone_mode=False)
heavy = {"torch", "numpy", "confluent_kafka", "fastavro", "driftline.config"} & sys.modules.keys()
print(f"imported {sorted(heavy)}")
sys.exit(time.process_time() > 0.5)
"""
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=False)
    assert "Train PyTorch models" in done.stdout
    assert done.stdout.endswith("imported []\n")
    assert done.returncode == 0, "`driftline --help` took more than half a second"


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [("--help",), ("broker", "status")])
def test_the_installed_command_ends_quietly_when_its_reader_has_seen_enough(
    words: tuple[str, ...], unbuffered: str, tmp_path: Path
) -> None:
    """As in `driftline --help | head -1`."""
    script = Path(sys.executable).parent / "driftline"
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered, "DRIFTLINE_HOME": str(tmp_path)}
    with subprocess.Popen((script, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()  # long before Python has started up and writes
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_the_installed_command_says_its_version() -> None:
    """One line, for scripts."""
    script = Path(sys.executable).parent / "driftline"
    done = subprocess.run((script, "--version"), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"driftline {__version__}\n")


def test_help_shows_no_formatting_signs() -> None:
    """Nor is an overview cut off in the middle of a sentence."""
    for words in ([], ["broker"], ["runs"]):
        text = CliRunner().invoke(main, [*words, "--help"]).output
        assert "\\b" not in text
        assert "..." not in text.partition("Commands:")[2]
    assert "Exit codes: 0 done" in CliRunner().invoke(main, ["--help"]).output
