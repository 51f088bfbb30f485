"""A stale gradient is damped by what the documentation says, measured on a shard and not only by the formula.

The effect of a gradient g is half the difference between the parameters that training ends with when one update has +g
and when it has -g, followed until its momentum has decayed. Damping is that effect over the one of an undamped update.
"""

import copy
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from driftline.consumers.server.shard import Shard
from driftline.ledger.policy import coefficients
from driftline.rules import RULES, FloatArray
from driftline.schemas.run.config import RuleConfig
from tests.support.shard_models import cut, numbers

PAGE = Path(__file__).parents[3] / "docs" / "update-rules.md"
ELEMENTS, HISTORY, DECAY = 64, 2000, 150
MOMENTUM, BETA1 = 0.9, 0.9
CONFIGS = {
    "SGD": RuleConfig(name="sgd", groups=({},)),
    "SGD, momentum 0.9": RuleConfig(name="sgd", groups=({"momentum": MOMENTUM},)),
    "SGD, Nesterov 0.9": RuleConfig(name="sgd", groups=({"momentum": MOMENTUM, "nesterov": 1.0},)),
    "Adam": RuleConfig(name="adam", groups=({},)),
    "AdamW": RuleConfig(name="adamw", groups=({},)),
    "Adagrad": RuleConfig(name="adagrad", groups=({},)),
}
FACTORS = (0.5, 0.25)


def damped(rule: str, weights: Sequence[float], factors: Sequence[float]) -> tuple[list[float], float]:
    """Return coefficients and rho of a version, with n and w of each contribution, as the ledger records them."""
    return coefficients(weights, factors, damps_rates=RULES[rule].damps_rates)


def formula(rule: str, factor: float, rho: float) -> float:
    """Return what the documentation says: the damping of a contribution with factor w in a version with this rho."""
    return factor * (BETA1 + (1 - BETA1) * rho) if rule in ("adam", "adamw") else factor


@cache
def trained(label: str) -> Shard:
    """Return a shard after a long undisturbed history, so that its moments and bias corrections have settled."""
    shard = Shard(cut([("w", ELEMENTS, 0)]), CONFIGS[label], 0, numbers("masters", ELEMENTS))
    history = numbers("history", ELEMENTS * HISTORY).reshape(HISTORY, ELEMENTS)
    for gradient in history:
        step(shard, [1.0], 1.0, [gradient])
    return shard


def step(shard: Shard, shares: Sequence[float], rho: float, gradients: Sequence[FloatArray]) -> None:
    """Make the next version at a learning rate of 1e-3."""
    deltas = [(np.float32(a), gradient, [True]) for a, gradient in zip(shares, gradients, strict=True)]
    shard.apply(shard.version + 1, deltas, [1e-3], rho)


def ends(label: str, weights: Sequence[float], factors: Sequence[float], gradients: Sequence[FloatArray]) -> FloatArray:
    """Return the parameters after one version of these contributions and the usual ones until its momentum is gone."""
    shard = copy.deepcopy(trained(label))
    step(shard, *damped(CONFIGS[label].name, weights, factors), gradients)
    for gradient in numbers("afterwards", ELEMENTS * DECAY).reshape(DECAY, ELEMENTS):
        step(shard, [1.0], 1.0, [gradient])
    return shard.masters.copy()


def effect(label: str, weights: Sequence[float], factors: Sequence[float]) -> FloatArray:
    """Return the effect of the last contribution, element by element; the others have gradients of their own."""
    gradient = np.copysign(np.float32(0.5), numbers("g", ELEMENTS))
    others = [numbers(f"other {place}", ELEMENTS) for place in range(len(weights) - 1)]
    plus, minus = (ends(label, weights, factors, [*others, signed]) for signed in (gradient, -gradient))
    return (plus - minus) / np.float32(2)


@cache
def damping(label: str, factor: float) -> FloatArray:
    """Measure the damping of one fully stale update, element by element."""
    return effect(label, [1.0], [factor]) / effect(label, [1.0], [1.0])


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("label", CONFIGS)
def test_a_fully_stale_update_is_damped_as_the_formula_says(label: str, factor: float) -> None:
    """By w for SGD with and without momentum and for Adagrad, by w (β₁ + (1 - β₁) w) for Adam and AdamW."""
    np.testing.assert_allclose(damping(label, factor), formula(CONFIGS[label].name, factor, factor), rtol=0.02)


@pytest.mark.parametrize("label", ["SGD, momentum 0.9", "AdamW", "Adagrad"])
def test_a_stale_contribution_among_fresh_ones_is_damped_on_its_own(label: str) -> None:
    """By its own w, and Adam's momentum by rho: a fresh neighbour is not weakened by more than that."""
    weights, factors = [1.0, 3.0], [1.0, 0.25]
    _, rho = damped(CONFIGS[label].name, weights, factors)
    measured = np.median(effect(label, weights, factors) / effect(label, weights, [1.0, 1.0]))
    assert measured == pytest.approx(formula(CONFIGS[label].name, 0.25, rho), rel=0.02)


def test_damping_the_gradient_alone_would_do_next_to_nothing_to_adam() -> None:
    """It divides by the gradient's own size: where all updates are as stale, a quarter of each is the same step."""
    moved = []
    for size in (1.0, 0.25):
        shard = Shard(cut([("w", 1, 0)]), CONFIGS["Adam"], 0, np.zeros(1, np.float32))
        for _ in range(5):
            step(shard, [size], 1.0, [np.ones(1, np.float32)])
        moved.append(float(shard.masters[0]))
    assert moved[1] == pytest.approx(moved[0], rel=1e-5)


def table() -> str:
    """Write the table of the documentation."""
    lines = ["| rule | w | damping measured | formula |", "|---|---|---|---|"]
    for label, config in CONFIGS.items():
        for factor in FACTORS:
            wanted = formula(config.name, factor, factor)
            lines.append(f"| {label} | {factor} | {np.median(damping(label, factor)):.3f} | {wanted:.3f} |")
    return "\n".join(lines) + "\n"


def test_the_documentation_shows_what_is_measured() -> None:
    """Line by line; where the two differ, the right side is what belongs into the page."""
    (shown,) = re.findall(r"^\| rule \| w \|.*?\n(?!\|)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert shown == table()
