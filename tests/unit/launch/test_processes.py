"""Child processes: their ends are noticed, their logs are kept, and none of them outlives its launcher."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from driftline.launch.processes import Child, Children

STEADY = "import sys; print('up', flush=True); sys.stdin.read(); print('input ended', flush=True)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
FAILS = "import sys; print('line 1\\nline 2'); sys.exit('cannot go on')"


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    """Whatever a test starts is gone after it."""
    children = Children(tmp_path / "logs", {"DRIFTLINE_TEST_SECRET": "s3cret"})
    yield children
    children.kill()


def start(children: Children, name: str, code: str, *, role: str = "worker") -> Child:
    """Start a process that runs ``code``."""
    return children.start(name, role, [sys.executable, "-c", code])


def until_up(child: Child) -> None:
    """Wait for its first line."""
    deadline_s = time.monotonic() + 30
    while "up" not in child.tail():
        assert time.monotonic() < deadline_s, child.ending()
        time.sleep(0.01)


def test_an_end_is_reported_once_with_its_code_and_the_end_of_its_log(children: Children) -> None:
    """Output and errors go to the log."""
    child = start(children, "worker-1", FAILS)
    assert children.wait(30)
    assert children.newly_ended() == [child]
    assert children.newly_ended() == []
    assert child.ending() == "ended with code 1"
    assert child.tail() == "line 1\nline 2\ncannot go on" or child.tail() == "cannot go on\nline 1\nline 2"


def test_a_second_start_adds_to_the_log_but_shows_only_its_own_end(children: Children) -> None:
    """What an earlier process wrote is kept for later."""
    for number in (1, 2):
        child = start(children, "worker-1", f"print('start {number}')")
        assert children.wait(30)
    assert child.tail() == "start 2"
    assert child.log.read_text() == "start 1\nstart 2\n"


def test_a_killed_process_is_described_by_its_signal(children: Children) -> None:
    """Not by a negative number."""
    child = start(children, "server-1", STEADY, role="server")
    until_up(child)
    os.kill(child.process.pid, signal.SIGKILL)
    assert children.wait(30)
    assert child.ending() == "was ended by SIGKILL"


def test_the_polite_end_goes_role_by_role_and_only_the_deaf_are_killed(children: Children) -> None:
    """And returns them, to be named."""
    deaf = start(children, "worker-1", DEAF)
    polite = start(children, "server-1", STEADY, role="server")
    for child in (deaf, polite):
        until_up(child)
    began_s = time.monotonic()
    assert children.end([("worker", 0.2), ("server", 0.5)]) == [deaf]
    assert time.monotonic() - began_s < 10
    assert (polite.code, deaf.code) == (-signal.SIGTERM, -signal.SIGKILL)


def test_an_interruption_of_the_polite_end_kills_at_once(children: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second Ctrl-C."""
    deaf = start(children, "worker-1", DEAF)
    until_up(deaf)

    def interrupt(_seconds: float) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr("driftline.launch.processes.time.sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        children.end([("worker", 30.0)])
    assert deaf.code == -signal.SIGKILL


def test_the_environment_reaches_the_process_and_its_command_line_stays_clean(children: Children) -> None:
    """Secrets travel where other users cannot see them."""
    child = start(children, "worker-1", "import os; print(os.environ['DRIFTLINE_TEST_SECRET'])")
    assert children.wait(30)
    assert child.tail() == "s3cret"


LAUNCHER = """
import sys, time
from pathlib import Path
from driftline.launch.processes import Children
children = Children(Path(sys.argv[1]))
child = children.start("worker-1", "worker", [sys.executable, "-c", sys.argv[2]])
print(child.process.pid, flush=True)
time.sleep(60)
"""


def test_a_process_learns_of_the_kill_of_its_launcher(tmp_path: Path) -> None:
    """By the end of its standard input, which the kernel sees to."""
    command = [sys.executable, "-c", LAUNCHER, str(tmp_path), STEADY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        pid = int(launcher.stdout.readline())
        launcher.kill()
    log = tmp_path / "worker-1.log"
    deadline_s = time.monotonic() + 30
    while "input ended" not in log.read_text():
        assert time.monotonic() < deadline_s, f"process {pid} goes on"
        time.sleep(0.02)
