"""An optimizer's settings become the run's rule, number by number, or are refused by name."""

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn, optim

from driftline.errors import ConfigError
from driftline.training.model.rule import group_of_parameters, rule_of

W = nn.Parameter(torch.zeros(2))
B = nn.Parameter(torch.zeros(2))


def test_sgd_is_read_group_by_group() -> None:
    """Switches become 0 or 1."""
    groups = [{"params": [W], "momentum": 0.9, "nesterov": True}, {"params": [B], "lr": 0.5, "weight_decay": 0.01}]
    rule = rule_of(optim.SGD(groups, lr=0.1))
    assert rule.name == "sgd"
    assert rule.groups == (
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.0, "weight_decay": 0.0, "nesterov": 1.0},
        {"lr": 0.5, "momentum": 0.0, "dampening": 0.0, "weight_decay": 0.01, "nesterov": 0.0},
    )
    assert all(type(number) is float for group in rule.groups for number in group.values())


@pytest.mark.parametrize(("kind", "name", "decay"), [(optim.Adam, "adam", 0.0), (optim.AdamW, "adamw", 0.01)])
def test_adam_and_adamw_are_read_with_both_betas(kind: type[optim.Adam], name: str, decay: float) -> None:
    """And keep torch's own defaults."""
    rule = rule_of(kind([W], lr=3e-4, betas=(0.8, 0.99)))
    assert rule.name == name
    assert rule.groups == ({"lr": 3e-4, "beta1": 0.8, "beta2": 0.99, "eps": 1e-8, "weight_decay": decay},)


def test_adagrad_is_read_and_its_sum_starts_as_in_torch() -> None:
    """Torch takes that number from the optimizer's own arguments: a group's is written down there, and not used."""
    groups = [{"params": [W], "lr_decay": 0.5, "initial_accumulator_value": 9.0}, {"params": [B], "eps": 1e-6}]
    optimizer = optim.Adagrad(groups, lr=0.1, initial_accumulator_value=0.1)
    rule = rule_of(optimizer)
    assert rule.name == "adagrad"
    both = {"lr": 0.1, "weight_decay": 0.0, "initial_accumulator_value": 0.1}
    assert rule.groups == ({**both, "lr_decay": 0.5, "eps": 1e-10}, {**both, "lr_decay": 0.0, "eps": 1e-6})
    assert all(float(optimizer.state[parameter]["sum"][0]) == np.float32(0.1) for parameter in (W, B))


def test_a_tensor_learning_rate_becomes_a_number() -> None:
    """The one it holds now."""
    rate = torch.tensor(0.25)
    rule = rule_of(optim.SGD([W], lr=rate))
    rate.fill_(9)
    assert rule.groups[0]["lr"] == 0.25


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: optim.Adadelta([W]), "Adadelta has no update rule on the servers; use torch.optim.SGD"),
        (lambda: optim.Adagrad([W], maximize=True), "Adagrad, parameter group 0: maximize is on"),
        (lambda: optim.AdamW([W], amsgrad=True), "AdamW, parameter group 0: amsgrad is on"),
        (lambda: optim.SGD([W], lr=0.1, maximize=True), "SGD, parameter group 0: maximize is on"),
        (lambda: optim.Adam([W], decoupled_weight_decay=True), "decoupled_weight_decay is on"),
        (lambda: optim.SGD([W], lr=float("nan")), "rule.groups[0].lr"),
        (lambda: optim.SGD([W], lr=0.1, momentum=1.5), "rule.groups[0].momentum"),
    ],
)
def test_what_the_servers_cannot_do_is_refused_by_name(build: Callable[[], optim.Optimizer], words: str) -> None:
    """At start, not at the first step."""
    with pytest.raises(ConfigError) as refused:
        rule_of(build())
    assert words in str(refused.value)


def test_a_subclass_is_another_optimizer() -> None:
    """It may step in any way."""

    class Mine(optim.SGD):
        pass

    with pytest.raises(ConfigError, match="Mine has no update rule"):
        rule_of(Mine([W], lr=0.1))


def test_an_optimizer_that_has_stepped_is_refused() -> None:
    """Its moments would be lost without a word."""
    parameter = nn.Parameter(torch.zeros(2))
    parameter.grad = torch.ones(2)
    for optimizer in (optim.AdamW([parameter]), optim.Adagrad([parameter])):
        optimizer.step()
        with pytest.raises(ConfigError, match="state of 1 parameters from earlier steps"):
            rule_of(optimizer)


def test_every_problem_of_every_group_is_listed() -> None:
    """Not the first alone."""
    groups = [{"params": [W], "amsgrad": True}, {"params": [B], "maximize": True, "lr": float("inf")}]
    with pytest.raises(ConfigError) as refused:
        rule_of(optim.AdamW(groups))
    assert len(refused.value.problems) == 3


def test_parameters_know_their_group() -> None:
    """By identity, not by value: both are zeros."""
    assert group_of_parameters(optim.SGD([{"params": [B]}, {"params": [W]}], lr=0.1)) == {W: 1, B: 0}


def test_building_an_optimizer_to_read_it_leaves_torchs_compiler_out_and_torch_as_it_was() -> None:
    """That import would be most of a worker's start."""
    code = """
import sys
import torch
from driftline.training.task.parts import build_optimizer
from driftline.training.task.parts import build_model
from driftline.training.task.randomness import set_torch_defaults
from driftline.training.task.loading import load_task
before = dict(vars(torch.optim.Optimizer.add_param_group.__wrapped__))
set_torch_defaults()
task = load_task("digits")
print(type(build_optimizer(task, build_model(task, 0))).__name__, "torch._dynamo" in sys.modules)
print(vars(torch.optim.Optimizer.add_param_group.__wrapped__) == before)
"""
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout.split() == ["AdamW", "False", "True"]
