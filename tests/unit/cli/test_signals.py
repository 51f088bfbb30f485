"""Signals that come while Python still imports what a command needs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from driftline.cli.stopping import handling, terminated_is_interrupted

EARLY = """
import os, signal, sys

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # it may be ignored where the tests run

class Sender:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), {number})

sys.meta_path.insert(0, Sender())
sys.argv = ["driftline", *{words!r}]
from driftline.__main__ import main
main()
"""


WORKER = ["-v", "worker", "digits", "--run", "r"]


@pytest.mark.parametrize(
    ("words", "number", "code", "module"),
    [
        (["server", "r"], signal.SIGTERM, 0, "click"),
        (["server", "r"], signal.SIGINT, 130, "driftline.config.problems"),
        (WORKER, signal.SIGTERM, 0, "driftline.config.problems"),
        (["--log-format", "json", *WORKER], signal.SIGTERM, 0, "click"),
        (["--log-format=json", *WORKER], signal.SIGHUP, 0, "click"),
        (["train", "digits"], signal.SIGTERM, 130, "click"),
    ],
)
def test_a_signal_during_the_first_imports_ends_a_command_in_order(
    words: list[str], number: int, code: int, module: str, tmp_path: Path
) -> None:
    """With the exit code of the contract, one line and no traceback, like a later one."""
    program = EARLY.format(module=module, number=int(number), words=words)
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "DRIFTLINE_HOME": str(tmp_path)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "driftline: stopped\n")


def test_a_signal_that_is_ignored_at_the_start_stays_ignored() -> None:
    """`nohup driftline train … &` lives on when its terminal is closed."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with terminated_is_interrupted():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_role_takes_the_end_of_its_terminal_and_gives_the_handler_back() -> None:
    """As SIGTERM."""
    taken: list[int] = []
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with handling(lambda number, _frame: taken.append(number), signal.SIGHUP):
            os.kill(os.getpid(), signal.SIGHUP)
        assert taken == [signal.SIGHUP]
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)
