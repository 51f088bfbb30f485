"""Parameters of bfloat16 and float16 are trained in float32: only what the worker holds is rounded."""

import numpy as np
import pytest
import torch
from torch import nn, optim

from driftline.consumers.server.shard import Shard
from driftline.schemas.model.layout import Layout
from driftline.schemas.run.config import RuleConfig
from driftline.training.model.gradients import collect_gradients
from driftline.training.model.layout import FlatArray, describe, flatten_parameters, load_parameters

SIXTEEN = (torch.bfloat16, torch.float16)


def held_in(dtype: torch.dtype, elements: int = 3) -> tuple[nn.ParameterDict, Layout]:
    """Return a model of one parameter, and its layout."""
    model = nn.ParameterDict({"w": nn.Parameter(torch.zeros(elements, dtype=dtype))})
    return model, describe(model, optim.SGD(model.parameters(), lr=1.0), partitions=1)[0]


def server(layout: Layout, lr: float) -> Shard:
    """Return a server's shard at zero, under plain SGD."""
    return Shard(layout, RuleConfig(name="sgd", groups=({"lr": lr},)), 0, np.zeros(layout.elements, np.float32))


def gradient_of(value: float, dtype: torch.dtype) -> FlatArray:
    """Return what a worker sends whose gradient is ``value`` everywhere."""
    model, layout = held_in(dtype)
    model["w"].grad = torch.full_like(model["w"], value)
    found = collect_gradients(model, layout)
    assert found.present.all()
    assert not found.not_finite
    return found.flat


@pytest.mark.parametrize("dtype", SIXTEEN)
def test_the_layout_says_what_the_worker_holds(dtype: torch.dtype) -> None:
    """Who holds it otherwise would compute other gradients."""
    _, layout = held_in(dtype)
    assert [(one.dtype, one.words) for one in layout.segments] == [(str(dtype).removeprefix("torch."), 3)]
    assert layout.fingerprint() != held_in(torch.float32)[1].fingerprint()


@pytest.mark.parametrize("dtype", SIXTEEN)
def test_loading_rounds_to_nearest_ties_to_even_and_reading_is_exact(dtype: torch.dtype) -> None:
    """Halfway between two numbers the even one is taken, below and above the nearer one."""
    model, layout = held_in(dtype, elements=5)
    step = torch.finfo(dtype).eps
    flat = np.array([1 + step / 2, 1 + 3 * step / 2, 1 + 0.49 * step, 1 + 0.51 * step, -1 - step / 2], np.float32)
    load_parameters(model, layout, flat)
    expected = [1.0, 1 + 2 * step, 1.0, 1 + step, -1.0]
    assert flatten_parameters(model, layout).tolist() == expected


@pytest.mark.parametrize("dtype", SIXTEEN)
def test_every_value_of_sixteen_bits_comes_back(dtype: torch.dtype) -> None:
    """To the bit, but for the payloads of NaNs, which are no weights."""
    every = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(dtype)
    every = every[~torch.isnan(every)]
    model, layout = held_in(dtype, elements=len(every))
    with torch.no_grad():
        model["w"].copy_(every)
    flat = flatten_parameters(model, layout)
    with torch.no_grad():
        model["w"].zero_()
    load_parameters(model, layout, flat)
    assert torch.equal(model["w"].detach().view(torch.int16), every.view(torch.int16))


@pytest.mark.parametrize(("workers", "value"), [(4, 30000.0), (8, 6e-8)])
def test_means_of_float16_gradients_neither_overflow_nor_vanish(workers: int, value: float) -> None:
    """Four times 30000 is infinite in float16, and an eighth of 6e-8 is zero."""
    _, layout = held_in(torch.float16)
    target, gradient = server(layout, lr=1.0), gradient_of(value, torch.float16)
    target.apply(1, [(np.float32(1 / workers), gradient, [True])] * workers, [1.0], 1.0)
    held = float(np.float16(value))
    assert held > 0
    assert target.masters.tolist() == [-held] * 3


def test_steps_too_small_for_bfloat16_add_up() -> None:
    """At 1, bfloat16 knows nothing between 1 and 1.0078: a model that was stepped in it would never move."""
    model, layout = held_in(torch.bfloat16)
    target = Shard(layout, RuleConfig(name="sgd", groups=({"lr": 1e-3},)), 0, np.ones(layout.elements, np.float32))
    for version in range(1, 101):
        load_parameters(model, layout, target.masters)
        model["w"].grad = torch.full_like(model["w"], -1.0)
        target.apply(version, [(np.float32(1.0), collect_gradients(model, layout).flat, [True])], [1e-3], 1.0)
    assert target.masters[0] == pytest.approx(1.1, rel=1e-5)
    load_parameters(model, layout, target.masters)
    assert model["w"].tolist() == torch.full((3,), 1.1, dtype=torch.bfloat16).tolist()
