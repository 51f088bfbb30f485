"""A script with the one changed line: what `driftline.Optimizer` does for it, from its start to its end."""

import copy
import gc
import os
import pickle
from collections.abc import Iterator

import pytest
import torch
from torch import optim

from driftline.errors import MemberRemoved, RunEnded, RunRefused, UsageError
from driftline.runs.commands import stop_run
from driftline.training.model.layout import describe, flatten_parameters
from driftline.training.worker.participation import Unfinished
from tests.support.scripts import House, house, line, loss_of, step, together


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
    """It lasts as long as a script trains; a later script goes on where it is."""
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
        stop_run(home.broker, "lines", "operator", "enough", timeout_s=60)
        step(model, opt)
        assert opt.done
        last = home.ledger().ended
        assert last is not None
        assert opt.version == last.version
        with pytest.raises(RunEnded, match=r"has ended at version \d+ \(stopped by operator: enough\)"):
            step(model, opt)


def test_a_worker_that_leaves_names_what_is_left_and_nothing_else() -> None:
    """An undecided contribution is no undelivered record: it is in the log, and may still be used."""
    assert str(Unfinished(0, 0)) == ""
    assert str(Unfinished(0, 1)) == "1 contributions that the ledger has not decided on"
    assert str(Unfinished(2, 1)).startswith("2 records that Kafka has not acknowledged and 1 ")


# -- other processes and other objects -------------------------------------------------------------------------------


def test_copies_are_refused(home: House) -> None:
    """A copy would be one member twice."""
    with home.optimizer(line()) as opt:
        for make in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(UsageError, match="cannot be copied or pickled"):
                make(opt)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_step_in_a_forked_child_is_refused(home: House) -> None:
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
    """A lock is not seen on another machine: the first process ends with the reason and what to do."""
    monkeypatch.setattr("driftline.training.optimizer.process.make_room", lambda *_: "")
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
    monkeypatch.setattr("driftline.producers.session.FINAL_MODEL_S", -1.0)
    with home.optimizer(late) as opt:
        assert (opt.done, opt.version) == (True, 2)
        assert bits(late) == bits(model)
