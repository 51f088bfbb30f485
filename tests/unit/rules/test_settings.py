"""A rule's configuration is checked in full before a run starts, and every problem says the way out."""

import math
from pathlib import Path

import numpy as np
import pytest

from driftline.rules import RULES, check_rule, with_defaults
from driftline.schemas.run.config import RuleConfig


def test_an_unknown_rule_is_refused_by_name_with_near_names() -> None:
    """The error for `AdamV` names what there is."""
    (problem,) = check_rule(RuleConfig(name="AdamV", groups=({},)))
    assert "'AdamV'" in problem
    assert "did you mean adam or adamw?" in problem
    assert all(name in problem for name in RULES)


def test_every_problem_of_every_group_is_reported_at_once() -> None:
    """Five mistakes take one start, not five."""
    config = RuleConfig(
        name="sgd", groups=({"lr": -1.0, "momentun": 0.9}, {"nesterov": True}, {"momentum": 1.5, "dampening": math.nan})
    )
    known = "lr, momentum, dampening, weight_decay, nesterov"
    assert check_rule(config) == [
        f"rule.groups[0].momentun: unknown setting of sgd; did you mean momentum? known are {known}",
        "rule.groups[0].lr: -1.0 is not a float32 from 0 up",
        "rule.groups[1].nesterov: needs momentum above 0 and dampening 0",
        "rule.groups[2].momentum: 1.5 is not from 0 to 1",
        "rule.groups[2].dampening: nan is not a finite number",
    ]


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("adamw", "beta1", 1.0),
        ("adamw", "beta2", -0.1),
        ("adamw", "eps", -1e-8),
        ("adam", "lr", math.inf),
        ("adam", "lr", 1e39),
        ("adam", "weight_decay", True),
        ("adagrad", "lr_decay", -0.1),
        ("adagrad", "initial_accumulator_value", math.nan),
        ("sgd", "nesterov", 0.5),
        ("sgd", "lr", "0.1"),
    ],
)
def test_a_value_out_of_range_is_refused_with_its_path(name: str, setting: str, value: float) -> None:
    """The message holds the path and the value."""
    (problem,) = check_rule(RuleConfig(name=name, groups=({}, {setting: value})))
    assert problem.startswith(f"rule.groups[1].{setting}: {value!r} ")


@pytest.mark.parametrize("name", RULES)
def test_defaults_are_spelled_out_and_without_problems(name: str) -> None:
    """A recorded run does not depend on defaults that a later release may change."""
    config = with_defaults(RuleConfig(name=name, groups=({}, {"lr": 1})))
    assert check_rule(config) == []
    assert [group["lr"] for group in config.groups] == [RULES[name].settings["lr"].default, 1.0]
    assert all(set(group) == set(RULES[name].settings) for group in config.groups)


def test_moments_are_declared_for_the_whole_run() -> None:
    """One group with momentum gives every shard a buffer: all shards have the same tensors."""
    assert RULES["sgd"].moments([{"momentum": 0.0}]) == ()
    assert RULES["sgd"].moments([{"momentum": 0.0}, {"momentum": 0.9}]) == ("momentum_buffer",)
    assert RULES["adamw"].moments([{}]) == ("exp_avg", "exp_avg_sq")
    assert RULES["adagrad"].moments([{}]) == ("sum",)


def test_damping_of_adam_acts_on_rates_and_learning_rate() -> None:
    """(1 - beta) rho, lr rho, and bias correction by the running product of what is left."""
    rule = RULES["adamw"]
    group = rule.complete({"beta1": 0.9, "beta2": 0.99, "eps": 0.0, "weight_decay": 0.5})
    state = rule.start()
    master, exp_avg, exp_avg_sq = (np.zeros(1, np.float32) for _ in range(3))
    m = v = p = 0.0
    product1 = product2 = 1.0
    for rho, gradient in ((0.5, 2.0), (0.25, -1.0), (1.0, 3.0)):
        state, kernel = rule.step(group, state, 0.1, rho)
        kernel(master, (exp_avg, exp_avg_sq), np.full(1, gradient, np.float32), np.empty(1, np.float32))
        r1, r2 = (1 - 0.9) * rho, (1 - 0.99) * rho
        product1, product2 = product1 * (1 - r1), product2 * (1 - r2)
        m, v = m + r1 * (gradient - m), v + r2 * (gradient**2 - v)
        p -= 0.1 * rho * 0.5 * p
        p -= 0.1 * rho * (m / (1 - product1)) / math.sqrt(v / (1 - product2))
    assert state.steps == 3
    assert state.products == pytest.approx((product1, product2), rel=1e-15)
    assert [master[0], exp_avg[0], exp_avg_sq[0]] == pytest.approx([p, m, v], rel=1e-6)


def test_damping_of_adagrad_acts_on_what_it_adds_and_on_the_learning_rate() -> None:
    """Sum += rho g², lr rho; the decay of the learning rate counts steps, damped ones as well."""
    rule = RULES["adagrad"]
    group = rule.complete({"lr_decay": 0.5, "eps": 0.0, "initial_accumulator_value": 0.25})
    state = rule.start()
    master, total = np.zeros(1, np.float32), np.full(1, rule.initial("sum", group))
    p, s = 0.0, 0.25
    for step, (rho, gradient) in enumerate(((0.5, 2.0), (0.25, -1.0), (1.0, 3.0))):
        state, kernel = rule.step(group, state, 0.1, rho)
        kernel(master, (total,), np.full(1, gradient, np.float32), np.empty(1, np.float32))
        s += rho * gradient**2
        p -= 0.1 * rho / (1 + 0.5 * step) * gradient / math.sqrt(s)
    assert state.steps == 3
    assert [master[0], total[0]] == pytest.approx([p, s], rel=1e-6)


def test_undamped_products_are_the_plain_powers() -> None:
    """With rho 1.0 the running product is that of beta itself, for every beta."""
    rule = RULES["adam"]
    for beta in (0.1, 0.3, 0.7, 0.9, 0.999):
        state, _ = rule.step(rule.complete({"beta1": beta, "beta2": beta}), rule.start(), 0.1, 1.0)
        assert state.products == (beta, beta)


def test_the_documentation_lists_every_setting_and_default() -> None:
    """Row by row, as the rules say themselves."""
    page = (Path(__file__).parents[3] / "docs" / "update-rules.md").read_text(encoding="utf-8")
    for name, rule in RULES.items():
        words = ", ".join(f"`{word}` {setting.default:g}" for word, setting in rule.settings.items())
        assert f"| `{name}` | {words} | " in page
