"""`driftline.load`, `follow` and `verify`: a run's model and its proof, for those who only read."""

import math
from collections.abc import Iterator

import pytest
import torch
from torch import nn

import driftline
from driftline.errors import RunRefused, WaitTimeout
from tests.support.scripts import URL, House, house, line, step, together


@pytest.fixture
def home() -> Iterator[House]:
    """Give a server and a broker in memory."""
    with house() as one:
        yield one


def plain() -> nn.Sequential:
    """Return a model with buffers and a tied tensor."""
    torch.manual_seed(0)
    made = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 1))
    tied = made[1].weight
    assert isinstance(tied, nn.Parameter)
    made[2].weight = tied
    return made


def test_load_gives_what_the_script_has(home: House) -> None:
    """By the names of the model's own state dict, to the bit, in its dtypes; by number, too."""
    trained = plain()
    with home.optimizer(trained) as opt:
        first: dict[str, torch.Tensor] = {}
        for _ in range(3):
            step(trained, opt)
            first = first or {name: one.clone() for name, one in trained.state_dict().items()}
    newest = driftline.load(URL, broker=home.broker)
    assert newest.keys() == trained.state_dict().keys()
    for name, tensor in trained.state_dict().items():
        assert torch.equal(newest[name], tensor)
        assert newest[name].dtype == tensor.dtype
    one = driftline.load(URL, version=1, broker=home.broker)
    assert all(torch.equal(one[name], first[name]) for name in first)
    plain().load_state_dict(newest)


def test_load_keeps_16_bits(home: House) -> None:
    """A master is rounded as the worker rounds it."""
    trained = nn.Linear(3, 1).to(torch.bfloat16)
    with home.optimizer(trained) as opt:
        trained.weight.grad, trained.bias.grad = torch.ones_like(trained.weight), torch.ones_like(trained.bias)
        opt.step()
    found = driftline.load(URL, broker=home.broker)
    assert all(torch.equal(found[name], tensor) for name, tensor in trained.state_dict().items())


def test_what_is_not_there(home: House) -> None:
    """Names what there is."""
    with pytest.raises(RunRefused, match="there is no run 'lines'"):
        driftline.load(URL, broker=home.broker)
    trained = line()
    with home.optimizer(trained) as opt:
        step(trained, opt)
    with pytest.raises(RunRefused, match=r"has not published version 7; near it are 0, 1, and the newest is 1"):
        driftline.load(URL, version=7, broker=home.broker)
    with pytest.raises(RunRefused, match="did you mean lines"):
        driftline.load("kafka://memory/line", broker=home.broker)


def test_follow_sees_versions_as_they_come_and_ends_with_the_run(home: House) -> None:
    """Each is loaded into the reader's model before it is given out; numbers rise, and the last one says so."""
    trained, watched = line(), line(3)

    def script() -> dict[str, torch.Tensor]:
        with home.optimizer(trained, steps=8) as opt:
            while not opt.done:
                step(trained, opt, loss=2.0)
        return trained.state_dict()

    def reader() -> list[driftline.Version]:
        return [one for one in driftline.follow(URL, watched, broker=home.broker, timeout=60)]  # noqa: C416 - a loop

    with home.optimizer(line(), worker="bob", steps=8):
        pass  # the run is there
    final, seen = together(script, reader)
    numbers = [one.number for one in seen]
    assert numbers == sorted(set(numbers))
    assert [one.is_last for one in seen] == [False] * (len(seen) - 1) + [True]
    assert numbers[-1] == 8
    assert all(one.loss == 2.0 or (one.number == 0 and math.isnan(one.loss)) for one in seen)
    assert all(torch.equal(watched.state_dict()[name], final[name]) for name in final)


def test_follow_gives_up_on_a_run_that_stands_still(home: House) -> None:
    """It says which version it waited for."""
    trained = line()
    with home.optimizer(trained) as opt:
        step(trained, opt)
    versions = driftline.follow(URL, broker=home.broker, timeout=1.0)
    assert next(versions).number == 1
    with pytest.raises(WaitTimeout, match="waited 1 s for a version newer than 1"):
        next(versions)


def test_verify_proves_what_scripts_trained(home: House) -> None:
    """Recomputing the log gives the recorded bits."""
    trained = line()
    with home.optimizer(trained, steps=4) as opt:
        while not opt.done:
            step(trained, opt)
    report = driftline.verify(URL, broker=home.broker)
    assert report.first_bad is None
    assert report.is_proven
    assert (report.version, report.different) == (4, 0)
    assert report.equal > 0


def test_train_refuses_as_the_command_does() -> None:
    """With the command's own words."""
    with pytest.raises(RunRefused, match="no built-in task 'digit'; did you mean digits"):
        driftline.train("digit", steps=3)
    with pytest.raises(RunRefused, match=r"^workers: zero workers compute nothing"):
        driftline.train("digits", workers=0, set={"learning_rate": 0.1})
