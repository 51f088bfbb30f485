"""From a torch optimizer to the update rule of the run.

The optimizer object of a task is read, never stepped: the servers apply the rule, in numpy. So only optimizers whose
rule they know can be taken, and every number that decides a step is read here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn, optim

from driftline.errors import ConfigError
from driftline.rules import check_rule
from driftline.schemas.run.config import RuleConfig


@dataclass(frozen=True, slots=True)
class _Reading:
    """How to read one class of optimizer.

    Attributes:
        rule: its name.
        numbers: reads those of a group.
        refused: switches that must be off.
        whole: what the optimizer takes from its own arguments, whatever its groups say.
    """

    rule: str
    numbers: Callable[[Mapping[str, Any]], dict[str, float]]
    refused: tuple[str, ...]
    whole: tuple[str, ...] = ()


def rule_of(optimizer: optim.Optimizer) -> RuleConfig:
    """Return the update rule of a torch optimizer.

    Names and numbers a group: ``sgd`` has lr, momentum, dampening, weight_decay, nesterov (0 or 1); ``adam`` and
    ``adamw`` have lr, beta1, beta2, eps, weight_decay; ``adagrad`` has lr, lr_decay, weight_decay,
    initial_accumulator_value, eps. All are floats; tensors are read once, now.

    Raises:
        ConfigError: lists everything about the optimizer that the servers cannot do.
    """
    problems = rule_problems(optimizer)
    if problems:
        raise ConfigError(problems)
    return _read(optimizer)


def rule_problems(optimizer: optim.Optimizer) -> list[str]:
    """Return one line a thing about the optimizer that the servers cannot do; empty when there is none."""
    kind = type(optimizer)
    if kind not in _READINGS:
        known = ", ".join(f"torch.optim.{known.__name__}" for known in _READINGS)
        return [f"optimizer {kind.__module__}.{kind.__qualname__} has no update rule on the servers; use {known}"]
    problems = []
    stepped = sum(not _is_new(optimizer, state) for state in optimizer.state.values())
    if stepped:
        problems.append(
            f"optimizer {kind.__name__} holds the state of {stepped} parameters from earlier steps, "
            f"but a run starts without; make a new optimizer"
        )
    for index, group in enumerate(optimizer.param_groups):
        problems += [
            f"optimizer {kind.__name__}, parameter group {index}: {switch} is on, which has no update rule on the "
            f"servers; turn it off"
            for switch in _READINGS[kind].refused
            if group.get(switch)
        ]
    return problems + check_rule(_read(optimizer))


def group_of_parameters(optimizer: optim.Optimizer) -> dict[nn.Parameter, int]:
    """Return the parameter group index of every parameter that the optimizer holds."""
    return {parameter: index for index, group in enumerate(optimizer.param_groups) for parameter in group["params"]}


def _read(optimizer: optim.Optimizer) -> RuleConfig:
    reading = _READINGS[type(optimizer)]
    whole = {name: optimizer.defaults[name] for name in reading.whole}
    groups = tuple(reading.numbers({**group, **whole}) for group in optimizer.param_groups)
    return RuleConfig(name=reading.rule, groups=groups)


def _is_new(optimizer: optim.Optimizer, state: Mapping[str, Any]) -> bool:
    # Adagrad alone makes its state with itself, not in the first step.
    if not isinstance(optimizer, optim.Adagrad):
        return not state
    start = optimizer.defaults["initial_accumulator_value"]
    return _number(state["step"]) == 0 and bool((state["sum"] == start).all())


def _sgd(group: Mapping[str, Any]) -> dict[str, float]:
    return {name: _number(group[name]) for name in ("lr", "momentum", "dampening", "weight_decay", "nesterov")}


def _adam(group: Mapping[str, Any]) -> dict[str, float]:
    beta1, beta2 = group["betas"]
    numbers = {name: _number(group[name]) for name in ("lr", "eps", "weight_decay")}
    return {**numbers, "beta1": _number(beta1), "beta2": _number(beta2)}


def _adagrad(group: Mapping[str, Any]) -> dict[str, float]:
    names = ("lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps")
    return {name: _number(group[name]) for name in names}


def _number(value: Any) -> float:
    return float(value.item() if isinstance(value, torch.Tensor) else value)


# Looked up by exact class, because a subclass may step in any other way.
_READINGS: Mapping[type, _Reading] = {
    optim.SGD: _Reading("sgd", _sgd, ("maximize",)),
    optim.Adam: _Reading("adam", _adam, ("maximize", "amsgrad", "decoupled_weight_decay")),
    optim.AdamW: _Reading("adamw", _adam, ("maximize", "amsgrad")),
    optim.Adagrad: _Reading("adagrad", _adagrad, ("maximize",), ("initial_accumulator_value",)),
}
