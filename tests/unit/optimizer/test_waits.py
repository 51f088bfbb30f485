"""Waits of a script's optimizer: whom they are for, and what an interrupt, SIGTERM or an error leaves behind."""

import _thread
import signal
import threading
from collections.abc import Iterator

import pytest
from torch import optim

import driftline
from driftline.broker.reading import until_end
from driftline.broker.topics import Stream, topic_name
from driftline.errors import WaitTimeout
from driftline.runtime.shell import Shell
from driftline.schemas.codec import decode
from driftline.schemas.effects import Send
from driftline.schemas.records import Leave
from driftline.testing.memory import MemoryBroker
from driftline.training.optimizer.process import Termination
from tests.support.scripts import RUN, House, house, line, loss_of, step, together

pytestmark = pytest.mark.slow


@pytest.fixture
def home() -> Iterator[House]:
    """Give a server and a broker in memory."""
    with house() as one:
        yield one


def test_a_start_without_other_workers_says_so(home: House) -> None:
    """And leaves nothing behind: the same script can try again."""
    for _ in range(2):
        with pytest.raises(WaitTimeout, match="waited 5 s for the run's 2 workers to be ready"):
            home.optimizer(line(), workers=2, timeout=5.0)


def test_a_start_that_no_server_accepts_names_the_command_that_serves_the_run() -> None:
    """The user reads there what is missing."""
    model = line()
    inner = optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(WaitTimeout, match=r"the run to start: a server must be up .*\(driftline server unserved\)"):
        driftline.Optimizer(inner, model, "kafka:///unserved", broker=MemoryBroker(), timeout=0.5)


def test_a_wait_names_the_members_it_is_for_and_the_next_step_goes_on(home: House) -> None:
    """The gradients that were computed meanwhile are of a version that is over; they are dropped."""
    both = threading.Barrier(2, timeout=60)

    def ada() -> int:
        model = line()
        with home.optimizer(model, worker="ada", workers=2, timeout=1.5) as opt:
            with pytest.raises(WaitTimeout, match=r"waited 2 s for version 1, for which bob must deliver"):
                step(model, opt)
            both.wait()
            step(model, opt)
            assert opt.version == 1
            both.wait()
            step(model, opt)
            return opt.version

    def bob() -> int:
        model = line()
        with home.optimizer(model, worker="bob", workers=2) as opt:
            both.wait()
            step(model, opt)
            both.wait()
            step(model, opt)
            return opt.version

    assert together(ada, bob) == [2, 2]
    assert dict(home.ledger().totals.contributions) == {"ada": 2, "bob": 2}


def test_an_interrupt_ends_a_wait(home: House) -> None:
    """Ctrl-C reaches a script that waits in step(), at once; it can go on afterwards."""
    ready, over = threading.Event(), threading.Event()

    def silent() -> None:
        with home.optimizer(line(), worker="bob", workers=2):
            ready.set()
            over.wait(60)

    other = threading.Thread(target=silent, daemon=True)
    other.start()
    model = line()
    with home.optimizer(model, workers=2) as opt:
        ready.wait(60)
        timer = threading.Timer(0.5, _thread.interrupt_main)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            step(model, opt)
        over.set()
        step(model, opt)
        assert opt.version == 1
    other.join(60)


def goodbyes(home: House) -> list[str]:
    """Return which workers have left, in order."""
    events = (decode(one.value) for one in until_end(home.broker, topic_name(RUN, Stream.EVENTS), 0, 0))
    return [event.worker for event in events if isinstance(event, Leave)]


def test_an_interrupted_close_leaves_the_run(home: House, caplog: pytest.LogCaptureFixture) -> None:
    """A second interrupt leaves without waiting, and says what is unfinished."""
    model = line()
    opt = home.optimizer(model, mode="async")
    home.close()
    step(model, opt)
    threading.Timer(0.5, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        opt.close()
    assert goodbyes(home) == ["ada"]
    assert "worker ada leaves with 1 contributions that the ledger has not decided on" in caplog.text


def test_an_error_ends_a_with_block_without_a_long_wait(home: House, caplog: pytest.LogCaptureFixture) -> None:
    """Ctrl-C does, too: what is under way may depend on a worker that is not there."""
    caplog.set_level("INFO")
    model = line()
    with pytest.raises(KeyboardInterrupt), home.optimizer(model, mode="async") as opt:  # noqa: PT012 - as scripts do
        home.close()
        step(model, opt)
        raise KeyboardInterrupt
    assert goodbyes(home) == ["ada"]
    assert "waiting for the ledger to decide" not in caplog.text


def test_sigterm_leaves_a_close_no_long_wait(
    home: House, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the process would be ended in the middle of it, and not leave the run."""
    caplog.set_level("INFO")
    monkeypatch.setattr("driftline.training.optimizer.optimizer.TERMINATION", Termination(within_s=1000))
    model = line()
    opt = home.optimizer(model, mode="async")
    home.close()
    try:
        with pytest.raises(SystemExit):  # noqa: PT012 - as scripts do
            step(model, opt)
            signal.raise_signal(signal.SIGTERM)
    finally:
        opt.close()
    assert goodbyes(home) == ["ada"]
    assert "waiting for the ledger to decide" not in caplog.text


def interrupted_behind(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next record of a stream be followed by an interrupt, like Ctrl-C right then."""
    send = Shell._send
    armed = [True]

    def interrupting(shell: Shell, effect: Send) -> None:
        send(shell, effect)
        if effect.stream is stream and threading.current_thread() is threading.main_thread() and armed:
            armed.clear()
            raise KeyboardInterrupt

    monkeypatch.setattr(Shell, "_send", interrupting)


@pytest.mark.parametrize(("stream", "kind"), [(Stream.DELTAS, "skip"), (Stream.EVENTS, "delta")])
def test_an_interrupt_while_a_step_is_sent_spends_its_clock(
    home: House, monkeypatch: pytest.MonkeyPatch, stream: Stream, kind: str
) -> None:
    """The next step's bytes under its number would contradict what is in the log already, and be rejected."""
    model = line()
    with home.optimizer(model, steps=4, timeout=20.0) as opt:
        step(model, opt)
        interrupted_behind(stream, monkeypatch)
        with pytest.raises(KeyboardInterrupt):
            step(model, opt)
        while not opt.done:
            (3 * loss_of(model)).backward()  # type: ignore[no-untyped-call]
            opt.step()
            opt.zero_grad()
    uses = [use for version in home.ledger().versions.values() for use in version.uses]
    assert [(use.clock, use.kind) for use in uses] == [(1, "delta"), (2, kind), (3, "delta"), (4, "delta")]
