"""What a script changes itself: weights, ``param_groups``, ``requires_grad``, shapes. Nothing is lost in silence."""

import logging
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import nn, optim
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

from driftline.errors import RunRefused, UsageError
from tests.support.scripts import House, house, line, loss_of, step


@pytest.fixture
def home() -> Iterator[House]:
    """A broker with a server."""
    with house() as one:
        yield one


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the script was warned of."""
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


# -- weights ---------------------------------------------------------------------------------------------------------

CHANGES: dict[str, Callable[[nn.Linear], object]] = {
    "load_state_dict": lambda model: model.load_state_dict(line(seed=7).state_dict()),
    "in place": lambda model: model.weight.detach().mul_(2),
    ".data": lambda model: model.weight.data.clamp_(-0.01, 0.01),
    "one element": lambda model: model.bias.data.add_(1e-6),
    "NaN": lambda model: model.bias.data.fill_(float("nan")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_weights_are_refused_at_the_next_step(home: House, change: Callable[[nn.Linear], object]) -> None:
    """Their gradient would stand in the log as one of a version that it was not computed on."""
    model = line()
    with home.optimizer(model) as opt:
        step(model, opt)
        change(model)
        with pytest.raises(UsageError, match=r"(weight|bias).*: changed since version 1 was loaded.* before driftline"):
            step(model, opt)
        assert home.ledger().version == 1


def test_weights_that_are_put_back_before_the_step_are_fine(home: House) -> None:
    """An evaluation with averaged weights does so."""
    model = line()
    with home.optimizer(model) as opt:
        kept = {name: one.clone() for name, one in model.state_dict().items()}
        model.load_state_dict(line(seed=7).state_dict())
        model.load_state_dict(kept)
        step(model, opt)
        assert opt.version == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_change_is_seen_in_every_dtype_and_with_any_strides(home: House, dtype: torch.dtype) -> None:
    """Also of a scalar, and in the last element of a tensor."""

    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.turned = nn.Parameter(torch.ones(70, 30, dtype=dtype).t())
            self.scalar = nn.Parameter(torch.tensor(1.0, dtype=dtype))
            self.none = nn.Parameter(torch.zeros(0, dtype=dtype))

    model = Odd()
    with home.optimizer(model, optim.SGD(model.parameters(), lr=0.1)) as opt:
        for parameter, name in ((model.turned, "turned"), (model.scalar, "scalar")):
            (model.turned.sum() * model.scalar).float().backward()  # type: ignore[no-untyped-call]
            opt.step()
            opt.zero_grad()
            before = parameter.detach().clone()
            parameter.data.reshape(-1)[-1:].copy_(torch.tensor([3.0], dtype=dtype)) if parameter.ndim == 0 else (
                parameter.data.__setitem__((-1, -1), 3.0)
            )
            (model.turned.sum() * model.scalar).float().backward()  # type: ignore[no-untyped-call]
            with pytest.raises(UsageError, match=f"{name}: changed since"):
                opt.step()
            opt.zero_grad()
            parameter.data.copy_(before)


# -- steps without a backward pass -----------------------------------------------------------------------------------


def test_a_tool_that_reads_the_optimizers_state_makes_no_step(home: House, caplog: pytest.LogCaptureFixture) -> None:
    """Torch's distributed checkpoints make one with gradients of zero, to have moments made."""
    model = line()
    inner = optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
    with home.optimizer(model, inner) as opt:
        step(model, opt)
        opt.zero_grad()
        before = {name: one.clone() for name, one in model.state_dict().items()}
        get_optimizer_state_dict(model, opt)
        assert (opt.version, home.ledger().version) == (1, 1)
        assert all(torch.equal(one, before[name]) for name, one in model.state_dict().items())
        step(model, opt)
        assert opt.version == 2
    assert any("without a backward pass" in one for one in warnings(caplog))


def test_gradients_that_a_script_puts_there_itself_count(home: House) -> None:
    """Without a backward pass of torch, for example by a formula of its own."""
    model = line()
    with home.optimizer(model) as opt:
        model.weight.grad = torch.ones_like(model.weight)
        opt.step()
        assert opt.version == 1


def test_a_script_that_never_steps_is_warned_when_it_leaves(home: House, caplog: pytest.LogCaptureFixture) -> None:
    """It may have kept a loop of its own that changes the weights."""
    home.optimizer(line()).close()
    assert "worker ada leaves without a contribution: opt.step() was never called" in warnings(caplog)


# -- what is fixed when the run is made ------------------------------------------------------------------------------


def test_a_layer_that_is_to_learn_later_is_named_once(home: House, caplog: pytest.LogCaptureFixture) -> None:
    """No server steps it: it is frozen in the run."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    model[0].requires_grad_(requires_grad=False)
    with home.optimizer(model, optim.SGD(model.parameters(), lr=0.1)) as opt:
        step(model, opt)
        assert not any("frozen" in one for one in warnings(caplog))
        model[0].requires_grad_(requires_grad=True)
        step(model, opt)
        step(model, opt)
    (found,) = [one for one in warnings(caplog) if "frozen" in one]
    assert found.startswith("0.weight, 0.bias: gets gradients, but is frozen in this run")


WRITTEN = {"momentum": 0.0, "weight_decay": 0.5, "nesterov": False, "betas": (0.1, 0.999), "eps": 1e-3}


@pytest.mark.parametrize("schedule", ["run", "script"])
@pytest.mark.parametrize("name", WRITTEN)
def test_other_numbers_of_a_group_that_a_script_changes_are_named_once(
    home: House, name: str, schedule: str, caplog: pytest.LogCaptureFixture
) -> None:
    """By a scheduler that cycles momentum, or by hand; only rates are taken from scripts."""
    model = line()
    rule: optim.Optimizer = (
        optim.Adam(model.parameters(), lr=0.1)
        if name in ("betas", "eps")
        else optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    )
    with home.optimizer(model, rule, schedule=schedule) as opt:
        step(model, opt)
        opt.param_groups[0][name] = WRITTEN[name]
        step(model, opt)
        step(model, opt)
    (found,) = [one for one in warnings(caplog) if name in one]
    assert "only learning rates of a script count, and this changes nothing" in found


def test_a_scheduler_that_cycles_momentum_is_named(home: House, caplog: pytest.LogCaptureFixture) -> None:
    """OneCycleLR writes it already when it is made."""
    model = line()
    inner = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with home.optimizer(model, inner, schedule="script") as opt:
        scheduler = optim.lr_scheduler.OneCycleLR(opt, max_lr=0.1, total_steps=10)
        step(model, opt)
        scheduler.step()
    assert any("param_groups[0]['momentum'] was 0.9" in one for one in warnings(caplog))


def test_a_buffer_that_gets_its_shape_in_the_first_forward_pass_is_named(home: House) -> None:
    """With the way out; the script is not accused of bringing another model."""

    class Late(nn.Linear):
        seen: torch.Tensor

        def __init__(self) -> None:
            super().__init__(3, 1)
            self.register_buffer("seen", torch.empty(0))

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            if not self.seen.numel():
                self.seen = torch.zeros(inputs.shape[0])
            return super().forward(inputs)

    model = Late()
    with home.optimizer(model) as opt:
        loss_of(model).backward()  # type: ignore[no-untyped-call]
        with pytest.raises(RunRefused, match=r"(?s)has changed since it joined .* run one batch .*seen: shape"):
            opt.step()


# -- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weight", "loss"),
    [
        (np.int64(12), np.float32(0.5)),
        (np.array(12), np.array(0.5)),
        (torch.tensor(12), torch.tensor(0.5)),
        (12, 0.5),
    ],
)
def test_any_real_number_is_a_weight_or_a_loss(home: House, weight: object, loss: object) -> None:
    """Those of numpy and torch, too."""
    model = line()
    with home.optimizer(model) as opt:
        opt.zero_grad()
        loss_of(model).backward()  # type: ignore[no-untyped-call]
        opt.step(weight=weight, loss=loss)
        (use,) = home.ledger().versions[1].uses
        assert (use.weight, home.ledger().loss) == (12.0, 0.5)


@pytest.mark.parametrize("wrong", [True, "12", np.array([1.0, 2.0]), None])
def test_what_is_no_number_is_refused(home: House, wrong: object) -> None:
    """None is a number only where it means the default."""
    model = line()
    with home.optimizer(model) as opt:
        opt.zero_grad()
        loss_of(model).backward()  # type: ignore[no-untyped-call]
        if wrong is None:
            opt.step(weight=wrong)
            assert opt.version == 1
        else:
            with pytest.raises(UsageError, match=r"weight is .*, not a number"):
                opt.step(weight=wrong)


def test_the_default_device_of_a_script_is_its_own_matter(home: House) -> None:
    """Tensors of our own are on the CPU, wherever torch puts new ones."""
    model = nn.Sequential(nn.Linear(3, 1), nn.BatchNorm1d(1))
    with home.optimizer(model, optim.SGD(model.parameters(), lr=0.1)) as opt:
        torch.set_default_device("meta")
        try:
            inputs = torch.ones(4, 3, device="cpu")
            model(inputs).sum().backward()
            opt.step()
        finally:
            torch.set_default_device(None)
        assert opt.version == 1
