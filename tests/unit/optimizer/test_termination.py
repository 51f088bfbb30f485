"""SIGTERM of a script that is a member of a run."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from driftline.training.optimizer.process import Termination

pytestmark = pytest.mark.slow

EXIT_CODE = 128 + signal.SIGTERM

SCRIPT = """
import os, signal, torch
from tests.support.scripts import house, line, step
with house() as home:
    model = line()
    opt = home.optimizer(model)
    step(model, opt)
    print("stepped", flush=True)
    if HANDLER:
        signal.signal(signal.SIGTERM, lambda *_: print("its own", flush=True))
    os.kill(os.getpid(), signal.SIGTERM)
    print("after", flush=True)
    opt.close()
    print("closed", signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, home.ledger().version, flush=True)
"""


@pytest.fixture(autouse=True)
def _handler() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


def handler() -> object:
    """Return what handles SIGTERM now."""
    return signal.getsignal(signal.SIGTERM)


def ask(number: signal.Signals = signal.SIGTERM) -> None:
    """Send this process a signal, and give Python the moment in which it notices."""
    os.kill(os.getpid(), number)
    time.sleep(0.1)


def test_it_ends_the_script_where_it_is() -> None:
    """With what a shell takes for SIGTERM; the process does not outlive the time that it has."""
    ended = threading.Event()
    one = Termination(lambda code: ended.set() if code == EXIT_CODE else None, within_s=0.2)
    one.hold()
    with pytest.raises(SystemExit) as asked:
        ask()
    assert asked.value.code == EXIT_CODE
    assert ended.wait(10)


def test_the_second_one_ends_at_once() -> None:
    """As the second Ctrl-C of a role does."""
    codes: list[int] = []
    one = Termination(codes.append, within_s=1000)
    one.hold()
    with pytest.raises(SystemExit):
        ask()
    assert codes == []
    with pytest.raises(SystemExit):
        ask()
    assert codes == [EXIT_CODE]


def test_the_handler_is_there_while_an_optimizer_needs_it() -> None:
    """Two Optimizers, such as a GAN's, are two users."""
    one = Termination()
    one.hold()
    one.hold()
    one.release()
    assert handler() is not signal.SIG_DFL
    one.release()
    assert handler() is signal.SIG_DFL
    one.release()
    assert handler() is signal.SIG_DFL


def test_a_handler_of_the_script_stays() -> None:
    """Whether it was there before or came later."""

    def own(*_: object) -> None:
        """Do nothing."""

    one = Termination()
    signal.signal(signal.SIGTERM, own)
    one.hold()
    assert handler() is own
    one.release()
    assert handler() is own
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    one.hold()
    signal.signal(signal.SIGTERM, own)
    one.release()
    assert handler() is own


def test_other_threads_leave_it_alone() -> None:
    """Python lets the main thread alone set handlers."""
    one = Termination()
    thread = threading.Thread(target=one.hold)
    thread.start()
    thread.join()
    assert handler() is signal.SIG_DFL


def test_a_closed_terminal_ends_it_too_unless_it_is_ignored() -> None:
    """Under `nohup` SIGHUP is ignored, and stays so."""
    one = Termination(lambda _code: None, within_s=1000)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        one.hold()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        one.release()
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        one.hold()
        with pytest.raises(SystemExit) as asked:
            ask(signal.SIGHUP)
        assert asked.value.code == 128 + signal.SIGHUP
        one.release()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_forked_child_ends_as_any_process() -> None:
    """It is no member of the run: a pool that ends its children must not wait for them."""
    one = Termination()
    one.hold()
    is_ready, ready = os.pipe()
    child = os.fork()
    if not child:
        os.write(ready, b".")  # Python drops a signal that comes before it has put the child in order
        time.sleep(60)
        os._exit(1)
    os.read(is_ready, 1)
    os.kill(child, signal.SIGTERM)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGTERM
    assert handler() is not signal.SIG_DFL
    one.release()


@pytest.mark.parametrize("handles", [False, True])
def test_a_script_leaves_its_run(handles: bool) -> None:  # noqa: FBT001 - a fact
    """And says so; one with a handler of its own goes on as it likes."""
    script = SCRIPT.replace("HANDLER", str(handles))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=200, check=False)
    if handles:
        assert (done.returncode, done.stdout.split("\n")[1:4]) == (0, ["its own", "after", "closed False 1"])
    else:
        assert (done.returncode, done.stdout) == (EXIT_CODE, "stepped\n"), done.stderr
        assert "SIGTERM: the script ends here, and leaves its run" in done.stderr
        assert "leaves with" not in done.stderr
