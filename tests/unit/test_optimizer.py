"""A script with the one changed line: what `driftline.Optimizer` does for it, from its start to its end."""

import _thread
import copy
import gc
import os
import pickle
import signal
import threading
from collections.abc import Iterator

import pytest
import torch
from torch import optim

import driftline
from driftline.broker.memory import MemoryBroker
from driftline.broker.topics import Stream, topic_name
from driftline.errors import MemberRemoved, RunEnded, RunRefused, UsageError, WaitTimeout
from driftline.schemas.codec import decode
from driftline.schemas.records import Leave
from driftline.training.commanding import stop_run
from driftline.training.model_layout import describe, flatten_parameters
from driftline.training.participation import Left
from driftline.training.reading import until_end
from driftline.training.termination import Termination
from tests.unit.scripted import RUN, House, house, line, loss_of, step, together


@pytest.fixture
def home() -> Iterator[House]:
    """Give a server and a broker in memory."""
    with house() as one:
        yield one


def bits(model: torch.nn.Module) -> bytes:
    """Return all parameters as bytes."""
    layout, _ = describe(model, optim.SGD(model.parameters(), lr=0.1), 1)
    return flatten_parameters(model, layout).tobytes()


# -- training --------------------------------------------------------------------------------------------------------


def test_one_script_alone_makes_the_steps_of_torch(home: House) -> None:
    """The run's rule is the optimizer's; float32 rounding apart, ten steps end where torch's do."""
    ours, theirs = line(), line()
    with home.optimizer(ours, optim.SGD(ours.parameters(), lr=0.1, momentum=0.5)) as opt:
        plain = optim.SGD(theirs.parameters(), lr=0.1, momentum=0.5)
        for _ in range(10):
            assert step(ours, opt) == pytest.approx(step(theirs, plain), rel=1e-4)
        assert opt.version == 10
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


def test_two_scripts_train_one_model(home: House) -> None:
    """They start from the same weights whatever their seeds, see the mean of their gradients, and end bit-equal."""

    def script(name: str, seed: int) -> tuple[bytes, float]:
        model = line(seed)
        with home.optimizer(model, worker=name, workers=2) as opt:
            first = loss_of(model).item()
            for _ in range(8):
                step(model, opt)
            return bits(model), first

    (ada, first), (bob, second) = together(lambda: script("ada", 1), lambda: script("bob", 2))
    assert ada == bob
    assert first == second
    state = home.ledger()
    assert state.version == 8
    assert dict(state.totals.contributions) == {"ada": 8, "bob": 8}


def test_a_weight_counts_in_the_mean(home: House) -> None:
    """Of two gradients with weights 1 and 3 the second counts three times as much."""

    def script(name: str, weight: float) -> float:
        model = line()
        with home.optimizer(model, worker=name, workers=2) as opt:
            start = model.bias.item()
            model.weight.grad, model.bias.grad = torch.zeros(1, 3), torch.full((1,), weight)
            opt.step(weight=weight)
            return start - model.bias.item()

    moved = together(lambda: script("ada", 1.0), lambda: script("bob", 3.0))
    assert moved == pytest.approx([0.1 * (1 * 1 + 3 * 3) / 4] * 2, rel=1e-5)


def test_parameters_change_in_step_and_pull_alone(home: House) -> None:
    """Another worker's versions are not seen before this script asks for them."""
    mine, other = line(), line()
    with home.optimizer(mine, mode="async") as ada:
        before = bits(mine)
        with home.optimizer(other, worker="bob") as bob:
            for _ in range(3):
                step(other, bob)
            while bob.version < 3:
                bob.pull()
        assert bits(mine) == before
        assert ada.version == 0
        while ada.pull() < 3:
            pass
        assert bits(mine) == bits(other)


def test_pull_between_backward_and_step_is_refused(home: House) -> None:
    """Gradients of two versions would be added up."""
    model = line()
    with home.optimizer(model) as opt:
        step(model, opt)
        assert opt.pull() == 1
        loss_of(model).backward()  # type: ignore[no-untyped-call]
        with pytest.raises(UsageError, match=r"pull\(\) between backward\(\) and step\(\)"):
            opt.pull()
        opt.zero_grad()
        assert opt.pull() == 1


# -- the run's end ---------------------------------------------------------------------------------------------------


def test_a_run_with_an_end(home: House) -> None:
    """``done`` turns true with the last version, which is loaded; a step behind it raises, also in a later start."""
    model, late = line(), line(1)
    with home.optimizer(model, steps=3) as opt:
        while not opt.done:
            step(model, opt)
        assert opt.version == 3
        with pytest.raises(RunEnded, match=r"has ended at version 3 \(reached version 3\)"):
            step(model, opt)
    with home.optimizer(late) as opt:
        assert opt.done
        assert bits(late) == bits(model)
        with pytest.raises(RunEnded):
            step(late, opt)


def test_a_run_without_an_end_goes_on_with_the_next_script(home: House) -> None:
    """It lasts as long as somebody trains; who comes later goes on where it is."""
    first, second = line(), line(1)
    with home.optimizer(first) as opt:
        for _ in range(2):
            step(first, opt)
    with home.optimizer(second) as opt:
        assert opt.version == 2
        assert bits(second) == bits(first)
        step(second, opt)
        assert not opt.done
    assert home.ledger().ended is None


def test_a_run_that_is_stopped_by_command(home: House) -> None:
    """A run without an end has one then: the script's next step ends, with the last version loaded."""
    model = line()
    with home.optimizer(model) as opt:
        step(model, opt)
        stop_run(home.broker, "lines", "somebody", "enough", timeout_s=60)
        step(model, opt)
        assert opt.done
        last = home.ledger().ended
        assert last is not None
        assert opt.version == last.version
        with pytest.raises(RunEnded, match=r"has ended at version \d+ \(stopped by somebody: enough\)"):
            step(model, opt)


def test_a_worker_that_leaves_names_what_is_left_and_nothing_else() -> None:
    """An undecided contribution is no undelivered record: it is in the log, and may still be used."""
    assert str(Left(0, 0)) == ""
    assert str(Left(0, 1)) == "1 contributions that the ledger has not decided on"
    assert str(Left(2, 1)).startswith("2 records that Kafka has not acknowledged and 1 ")


# -- waiting ---------------------------------------------------------------------------------------------------------


def test_a_start_that_nobody_joins_says_so(home: House) -> None:
    """And leaves nothing behind: the same script can try again."""
    for _ in range(2):
        with pytest.raises(WaitTimeout, match="waited 5 s for the run's 2 workers to be ready"):
            home.optimizer(line(), workers=2, timeout=5.0)


def test_a_start_that_no_server_accepts_names_the_command_that_serves_the_run() -> None:
    """Whoever has started the script only reads there what is missing."""
    model = line()
    inner = optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(WaitTimeout, match=r"the run to start: a server must be up .*\(driftline server unserved\)"):
        driftline.Optimizer(inner, model, "kafka:///unserved", broker=MemoryBroker(), timeout=0.5)


def test_a_wait_names_whom_it_is_for_and_the_next_step_goes_on(home: House) -> None:
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
    """Return which workers have said goodbye, in order."""
    events = (decode(one.value) for one in until_end(home.broker, topic_name(RUN, Stream.EVENTS), 0, 0, None))
    return [event.worker for event in events if isinstance(event, Leave)]


def test_an_interrupted_close_says_goodbye(home: House, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever does not want to wait any longer still leaves, and is told with what."""
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
    """Ctrl-C does, too: what is under way may depend on somebody who is not there."""
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
    """Otherwise the process would be ended in the middle of it, and say no goodbye."""
    caplog.set_level("INFO")
    monkeypatch.setattr("driftline.training.optimizer.TERMINATION", Termination(within_s=1000))
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


# -- other processes and other objects -------------------------------------------------------------------------------


def test_copies_are_refused(home: House) -> None:
    """A copy would be one member twice."""
    with home.optimizer(line()) as opt:
        for make in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(UsageError, match="cannot be copied or pickled"):
                make(opt)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_told(home: House) -> None:
    """Its threads and connections are the parent's; closing there closes nothing."""
    model = line()
    with home.optimizer(model) as opt:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                opt.step()
            except UsageError as error:
                os.write(writing, str(error).encode())
            opt.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert f"belongs to process {os.getpid()}; after a fork" in os.read(reading, 1000).decode()
        step(model, opt)
        assert opt.version == 1
        os.close(reading)
        os.close(writing)


def test_a_cell_that_is_run_again_takes_over(home: House, caplog: pytest.LogCaptureFixture) -> None:
    """The earlier optimizer of the same name is closed, and says so when it is used."""
    first = line()
    old = home.optimizer(first)
    step(first, old)
    again = line(1)
    with home.optimizer(again) as new:
        assert "an earlier Optimizer of worker 'ada' in this process was closed" in caplog.text
        with pytest.raises(UsageError, match="is closed; if a notebook's cell was run again, use the new one"):
            step(first, old)
        step(again, new)
        assert new.version == 2


def test_an_optimizer_that_is_dropped_leaves(home: House) -> None:
    """No thread keeps it, nor the model: the run goes on without it at once."""
    model = line()
    opt = home.optimizer(model)
    step(model, opt)
    del opt
    gc.collect()
    with home.optimizer(line(), worker="bob") as other:
        assert other.version == 1
        assert [one.worker for one in home.ledger().groups.values()] == ["bob"]


def test_a_second_process_of_one_name_is_the_newer_start_of_it(home: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """On two machines nobody can see the other's lock: the first is told why it is out, and what to do."""
    monkeypatch.setattr("driftline.training.optimizer_registry.make_room", lambda *_: "")
    model, other = line(), line()
    old = home.optimizer(model)
    with home.optimizer(other) as new:
        with pytest.raises(MemberRemoved, match=r"(?s)'ada' was removed.*give each\s+process its own"):
            step(model, old)
        step(other, new)
    old.close()


# -- state -----------------------------------------------------------------------------------------------------------


def test_the_state_says_where_the_state_is(home: House) -> None:
    """It can be saved and loaded anywhere in the same run, and nowhere else."""
    model = line()
    with home.optimizer(model) as opt:
        step(model, opt)
        saved = pickle.loads(pickle.dumps(opt.state_dict()))  # noqa: S301 - our own bytes
        start = home.ledger().start
        assert start is not None
        assert saved["driftline"] == {
            "run": "lines",
            "uuid": start.run.hex(),
            "version": 1,
            "fingerprint": opt.fingerprint.hex(),
        }
        assert saved["state"] == {}
        step(model, opt)
        opt.load_state_dict(saved)
        assert opt.version == 2
        for key, value, said in (
            ("uuid", "00" * 16, r"is of run lines \(00000000\), this is run lines"),
            ("fingerprint", "00", "is of another model"),
            ("version", 7, "is of version 7, but run lines is at version 2"),
        ):
            with pytest.raises(RunRefused, match=said):
                opt.load_state_dict({**saved, "driftline": {**saved["driftline"], key: value}})
        with pytest.raises(UsageError, match=r"not the state of a driftline\.Optimizer"):
            opt.load_state_dict(optim.SGD(model.parameters(), lr=0.1).state_dict())


def test_the_last_version_is_read_if_it_did_not_come_by_itself(home: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """``done`` never means weights of another version: on a machine under load they may be late."""
    model, late = line(), line(1)
    with home.optimizer(model, steps=2) as opt:
        while not opt.done:
            step(model, opt)
    monkeypatch.setattr("driftline.training.session.FINAL_MODEL_S", -1.0)
    with home.optimizer(late) as opt:
        assert (opt.done, opt.version) == (True, 2)
        assert bits(late) == bits(model)
