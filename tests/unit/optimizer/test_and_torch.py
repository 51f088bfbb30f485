"""What happens with the rest of torch when a script's optimizer is a member of a run: tests of the page's rows."""

import logging
import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn, optim
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

from driftline.errors import ConfigError, RunRefused, UsageError
from tests.support.scripts import URL, House, house, line, loss_of, points, step

pytestmark = pytest.mark.slow


@pytest.fixture
def home() -> Iterator[House]:
    """Give a server and a broker in memory."""
    with house() as one:
        yield one


def weights(model: nn.Module) -> list[torch.Tensor]:
    """Copy all parameters."""
    return [parameter.detach().clone() for parameter in model.parameters()]


def assert_same(model: nn.Module, other: nn.Module) -> None:
    """Compare two models up to the rounding of float32."""
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


def test_scheduler(home: House, caplog: pytest.LogCaptureFixture) -> None:
    """It may step, what it writes does not count, and that is said once."""
    model, plain = line(), line()
    opt, other = home.optimizer(model), optim.SGD(plain.parameters(), lr=0.1)
    scheduler = LambdaLR(opt, lambda epoch: 0.5**epoch)
    for _ in range(3):
        step(model, opt)
        step(plain, other)
        scheduler.step()
        assert opt.param_groups[0]["lr"] != 0.1
    step(model, opt)
    step(plain, other)
    opt.close()
    assert_same(model, plain)
    said = [one.getMessage() for one in caplog.records if "param_groups" in one.getMessage()]
    assert len(said) == 1
    assert "set to 0.05" in said[0]
    assert "it is 0.1 for version 2" in said[0]


def test_scheduler_of_the_wrapped_optimizer(home: House) -> None:
    """A warm-up that set the rate to 0 before the run read it would train nothing."""
    model = line()
    inner = optim.SGD(model.parameters(), lr=0.1)
    LambdaLR(inner, lambda epoch: min(1.0, epoch / 10))
    with pytest.raises(UsageError, match="has a learning rate scheduler already"):
        home.optimizer(model, inner)


def test_the_runs_own_schedule(home: House) -> None:
    """Rates follow from the version, and are shown in param_groups before the step that they are for."""
    model = line()
    shown = []
    with home.optimizer(model, steps=4, warmup=2, decay="linear") as opt:
        while not opt.done:
            shown.append(opt.param_groups[0]["lr"])
            step(model, opt)
    assert shown == pytest.approx([0.05, 0.1, 0.05, 0.0])
    versions = home.ledger().versions
    assert [versions[one].learning_rates[0] for one in sorted(versions)] == pytest.approx(shown)


def test_clip_grad_norm(home: House) -> None:
    """Clips this worker's own gradient, before the mean."""
    model, plain = line(), line()
    with home.optimizer(model) as opt:
        for one, of in ((model, opt), (plain, optim.SGD(plain.parameters(), lr=0.1))):
            loss_of(one).backward()  # type: ignore[no-untyped-call]
            norm = nn.utils.clip_grad_norm_(one.parameters(), 0.01)
            assert norm > 0.01
            of.step()
        assert_same(model, plain)


def test_ema(home: House) -> None:
    """A copy of the model follows what the run makes."""
    model, plain = line(), line()
    with home.optimizer(model) as opt:
        pairs: list[Any] = [(model, opt), (plain, optim.SGD(plain.parameters(), lr=0.1))]
        averages = []
        for one, of in pairs:
            averages.append(AveragedModel(one, multi_avg_fn=get_ema_multi_avg_fn(0.5)))  # type: ignore[no-untyped-call]
            for _ in range(3):
                step(one, of)
                averages[-1].update_parameters(one)
        assert_same(*averages)


def test_compile(home: House) -> None:
    """Names lose what torch.compile adds: a compiled script and a plain one are one model."""
    compiled: Any = torch.compile(line(), backend="eager")
    with home.optimizer(compiled) as opt:
        before = step(compiled, opt)
        assert step(compiled, opt) < before
    plain = line(seed=5)
    with home.optimizer(plain, worker="bob") as opt:
        assert opt.version == 2
        assert_same(plain, compiled)


def test_wrapper(home: House) -> None:
    """Names lose what DataParallel and DistributedDataParallel add."""
    wrapped = nn.DataParallel(line())
    with home.optimizer(wrapped) as opt:
        step(wrapped, opt)
        layout = home.ledger().layout
    assert [segment.name for segment in layout.segments] == ["weight", "bias"]


def test_several_optimizers_of_one_model(home: House) -> None:
    """A run holds whole models: two optimizers over one would undo each other's steps."""
    model = nn.Sequential(line(), nn.Linear(1, 1))
    with home.optimizer(model, optim.SGD(model[0].parameters(), lr=0.1)):
        with pytest.raises(UsageError, match=re.escape(f"already trains another model in run {URL}")):
            home.optimizer(model[0])
        with pytest.raises(UsageError, match=r"0.weight, 0.bias belong to another Optimizer of this process already"):
            home.optimizer(model[0], worker="bob")


@pytest.mark.parametrize("kind", [optim.LBFGS, optim.RMSprop, optim.Adafactor, optim.SparseAdam])
def test_other_rules(home: House, kind: Any) -> None:
    """An optimizer that the servers do not know is refused by name, with those that they know."""
    model = line()
    with pytest.raises(ConfigError, match=rf"{kind.__name__} has no update rule on the servers; use torch.optim.SGD"):
        home.optimizer(model, kind(model.parameters()))


def test_grad_scaler(home: House) -> None:
    """Unscaled gradients are contributed; an overflow spends the step and changes nothing."""
    model, plain = line(), line()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=100)
    with home.optimizer(model) as opt:
        for bad in (False, True, False):
            opt.zero_grad()
            before = weights(model)
            scaler.scale(loss_of(model) * (float("inf") if bad else 1.0)).backward()  # type: ignore[no-untyped-call]
            scaler.step(opt)
            scaler.update()
            same = all(torch.equal(one, two) for one, two in zip(before, weights(model), strict=True))
            assert same is bad
        assert opt.version == 3
        assert scaler.get_scale() == 512.0
    other = optim.SGD(plain.parameters(), lr=0.1)
    for _ in range(2):
        step(plain, other)
    assert_same(model, plain)
    assert dict(home.ledger().totals.skips) == {"ada": 1}


def test_grad_scaler_with_clipping(home: House) -> None:
    """After unscale_() the gradients are what they should be, and stay it."""
    model, plain = line(), line()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with home.optimizer(model) as opt:
        scaler.scale(loss_of(model)).backward()  # type: ignore[no-untyped-call]
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        scaler.step(opt)
        scaler.update()
        loss_of(plain).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(plain.parameters(), 0.01)
        optim.SGD(plain.parameters(), lr=0.1).step()
        assert_same(model, plain)


def test_gradient_accumulation(home: House) -> None:
    """Several backward passes before a step are one contribution."""
    model, plain = line(), line()
    inputs, heights = points()
    with home.optimizer(model) as opt:
        for chosen in (slice(0, 6), slice(6, 12)):
            (nn.functional.mse_loss(model(inputs[chosen]), heights[chosen]) / 2).backward()  # type: ignore[no-untyped-call]
        opt.step()
        assert opt.version == 1
    step(plain, optim.SGD(plain.parameters(), lr=0.1))
    assert_same(model, plain)


def test_closure(home: House) -> None:
    """Called once, with gradients enabled, and its loss is in the ledger."""
    model, calls = line(), []
    with home.optimizer(model) as opt:

        def closure() -> torch.Tensor:
            calls.append(opt.version)
            opt.zero_grad()
            loss = loss_of(model)
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        with torch.no_grad():
            found = opt.step(closure)
        assert calls == [0]
        assert home.ledger().loss == pytest.approx(found.item(), rel=1e-6)


def test_weight_and_loss(home: House) -> None:
    """Both go into the ledger; what is no number is refused before anything is spent."""
    model = line()
    with home.optimizer(model) as opt:
        step(model, opt, weight=12, loss=torch.tensor(2.5))
        uses = home.ledger().versions[1].uses
        assert [(one.weight, one.loss) for one in uses] == [(12.0, 2.5)]
        for wrong in (-1, float("nan"), 1e300):
            with pytest.raises(UsageError, match="weight is"):
                step(model, opt, weight=wrong)
        with pytest.raises(UsageError, match=r"loss is a tensor of shape \(2,\)"):
            step(model, opt, loss=torch.zeros(2))
        step(model, opt)
        assert home.ledger().versions[2].uses[0].weight == 1.0


def test_gradients_that_are_not_finite(home: House, caplog: pytest.LogCaptureFixture) -> None:
    """Contribute nothing, by name; the model stays whole."""
    model = line()
    with home.optimizer(model) as opt:
        (loss_of(model) * float("nan")).backward()  # type: ignore[no-untyped-call]
        opt.step()
        assert opt.version == 1
        assert all(one.isfinite().all() for one in weights(model))
    assert "contributes nothing: not finite: weight, bias" in caplog.text


def test_parameters_without_a_gradient(home: House) -> None:
    """Are left as they are: no decay, no step count, as with torch."""
    model = nn.ModuleDict({"used": line(), "unused": nn.Linear(2, 2)})
    before = weights(model["unused"])
    with home.optimizer(model, optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)) as opt:
        step(model["used"], opt)
        assert opt.version == 1
    assert all(torch.equal(one, two) for one, two in zip(before, weights(model["unused"]), strict=True))


def test_frozen_parameters(home: House) -> None:
    """Come from version 0, in every worker the same."""
    first, second = line(1), line(2)
    model, late = nn.Sequential(first, nn.Linear(1, 1)), nn.Sequential(second, nn.Linear(1, 1))
    for one in (first, second):
        one.requires_grad_(requires_grad=False)
    with home.optimizer(model) as opt:
        step(model, opt)
        with home.optimizer(late, worker="bob"):
            pass
    assert torch.equal(first.weight, second.weight)
    assert torch.equal(first.weight, line(1).weight)


def test_sparse_gradients(home: House) -> None:
    """Refused in the backward pass that makes them, by name."""
    model = nn.Embedding(5, 2, sparse=True)
    with home.optimizer(model, optim.SGD(model.parameters(), lr=0.1)) as opt:
        with pytest.raises(RunRefused, match="the gradient of weight is sparse"):
            model(torch.tensor([1, 1, 3])).sum().backward()
        assert opt.version == 0


def test_add_param_group(home: House) -> None:
    """The groups of a run are fixed when it is made."""
    model = nn.Sequential(line(), nn.Linear(1, 1))
    with (
        home.optimizer(model, optim.SGD(model[0].parameters(), lr=0.1)) as opt,
        pytest.raises(
            UsageError, match=r"add_param_group\(1.weight, 1.bias\): the parameter groups of a run are fixed"
        ),
    ):
        opt.add_param_group({"params": list(model[1].parameters())})


def test_parameter_groups(home: House) -> None:
    """Each has its own rate and decay."""
    model, plain = line(), line()
    with home.optimizer(model, optim.SGD(groups(model), lr=0.1)) as opt:
        other = optim.SGD(groups(plain), lr=0.1)
        for _ in range(3):
            step(model, opt)
            step(plain, other)
    assert_same(model, plain)


def groups(model: nn.Linear) -> list[dict[str, Any]]:
    """Return two groups with rates and decays of their own."""
    return [{"params": [model.weight], "weight_decay": 0.1}, {"params": [model.bias], "lr": 0.01}]


def test_step_hooks(home: House) -> None:
    """Torch's hooks are called, before and behind."""
    model, seen = line(), list[str]()
    with home.optimizer(model) as opt:
        opt.register_step_pre_hook(lambda *_: seen.append(f"before {opt.version}"))
        opt.register_step_post_hook(lambda *_: seen.append(f"behind {opt.version}"))
        step(model, opt)
    assert seen == ["before 0", "behind 1"]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_data_loader_workers(home: House) -> None:
    """Their processes only read data."""
    model = line()
    with home.optimizer(model) as opt:
        for inputs, heights in DataLoader(TensorDataset(*points()), batch_size=4, num_workers=1):
            opt.zero_grad()
            nn.functional.mse_loss(model(inputs), heights).backward()  # type: ignore[no-untyped-call]
            opt.step()
        assert opt.version == 3


def test_torch_makes_no_remark(home: House, caplog: pytest.LogCaptureFixture) -> None:
    """A plain loop is quiet."""
    model = line()
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING), home.optimizer(model) as opt:
        warnings.simplefilter("error")
        step(model, opt)
    assert caplog.text == ""


def test_batch_norm(home: House) -> None:
    """Buffers ride along: each version takes them over from one contribution, and every worker sees the same ones."""
    model, plain, late = (nn.Sequential(nn.BatchNorm1d(3), line()) for _ in range(3))
    with home.optimizer(model) as opt:
        other = optim.SGD(plain.parameters(), lr=0.1)
        for _ in range(3):
            step(model, opt)
            step(plain, other)
        with home.optimizer(late, worker="bob") as newcomer:
            assert newcomer.version == 3
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value, rtol=1e-5, atol=1e-6)
        assert torch.equal(late.state_dict()[name], model.state_dict()[name])


def test_bfloat16(home: House) -> None:
    """Parameters of 16 bits have float32 masters on the servers: small steps add up, and none is lost in rounding."""
    model = line().to(torch.bfloat16)
    start = model.bias.detach().clone()
    with home.optimizer(model, optim.SGD(model.parameters(), lr=1e-4)) as opt:
        for _ in range(40):
            model.weight.grad, model.bias.grad = torch.zeros_like(model.weight), torch.full_like(model.bias, 1.0)
            opt.step()
    assert model.bias.dtype == torch.bfloat16
    assert (start - model.bias).item() == pytest.approx(40 * 1e-4, rel=0.5)


def test_tied_weights(home: House) -> None:
    """Are one tensor: stepped once, and still one afterwards."""
    model, plain = tied(), tied()
    with home.optimizer(model, optim.SGD(model.parameters(), lr=0.1)) as opt:
        for one, of in ((model, opt), (plain, optim.SGD(plain.parameters(), lr=0.1))):
            one(torch.ones(2, 3)).square().mean().backward()
            of.step()
    assert model[0].weight is model[1].weight
    assert_same(model, plain)


def tied() -> nn.Sequential:
    """Return two layers with one weight."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    return model
