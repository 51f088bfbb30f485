"""The rules agree to the bit with an element-by-element computation in pure Python.

Every operation of the reference is done in float64 and rounded to float32 at once. For one ``+ - * /`` or root of
float32 numbers that equals the correctly rounded float32 operation (float64 has more than twice its digits and two), so
a fused, reordered or flushed operation in a rule would show.
"""

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftline.consumers.server.shard import Shard
from driftline.errors import NonFiniteState
from driftline.rules import RULES
from driftline.schemas.run.config import RuleConfig
from tests.support.shard_models import cut

ELEMENTS = 5
Term = tuple[float, Sequence[float] | None]


class NotFinite(Exception):
    """The reference left the finite numbers."""


def f32(value: float) -> float:
    """Round to float32, to nearest, ties to even."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        raise NotFinite from None
    if not math.isfinite(rounded):
        raise NotFinite
    return rounded


def quotient(left: float, right: float) -> float:
    """Divide in float32."""
    if right == 0.0:
        raise NotFinite
    return f32(left / right)


def combined(terms: Sequence[Term], place: int) -> float:
    """Sum one element over contributions, the first term first."""
    products = [0.0 if gradient is None else f32(f32(a) * gradient[place]) for a, gradient in terms]
    total = products[0]
    for product in products[1:]:
        total = f32(total + product)
    return total


@dataclass
class Slow:
    """State of one segment, computed the slow way."""

    masters: list[float]
    first: list[float] = field(default_factory=lambda: [0.0] * ELEMENTS)
    second: list[float] = field(default_factory=lambda: [0.0] * ELEMENTS)
    steps: int = 0
    products: tuple[float, float] = (1.0, 1.0)

    def sgd(self, group: Mapping[str, float], terms: Sequence[Term], lr: float, rho: float) -> None:
        """Step all elements by SGD."""
        del rho
        momentum, decay = f32(group["momentum"]), f32(group["weight_decay"])
        for i in range(ELEMENTS):
            u = combined(terms, i)
            if group["weight_decay"] != 0:
                u = f32(u + f32(self.masters[i] * decay))
            if group["momentum"] != 0:
                new = f32(u * f32(1.0 - group["dampening"]))
                self.first[i] = u if self.steps == 0 else f32(f32(self.first[i] * momentum) + new)
                u = f32(u + f32(self.first[i] * momentum)) if group["nesterov"] else self.first[i]
            self.masters[i] = f32(self.masters[i] - f32(u * f32(lr)))
        self.steps += 1

    def adam(
        self, group: Mapping[str, float], terms: Sequence[Term], lr: float, rho: float, *, decoupled: bool = False
    ) -> None:
        """Step all elements by Adam, or by AdamW if ``decoupled``."""
        lr = lr * rho
        rate1, rate2 = (1.0 - group["beta1"]) * rho, (1.0 - group["beta2"]) * rho
        beta1, beta2 = (group["beta1"], group["beta2"]) if rho == 1.0 else (1.0 - rate1, 1.0 - rate2)
        self.products = (self.products[0] * beta1, self.products[1] * beta2)
        correction1, correction2 = 1.0 - self.products[0], math.sqrt(1.0 - self.products[1])
        if not (correction1 > 0 and correction2 > 0):
            raise NotFinite
        decay = group["weight_decay"]
        for i in range(ELEMENTS):
            u = combined(terms, i)
            if decay != 0 and decoupled:
                self.masters[i] = f32(self.masters[i] * f32(1.0 - lr * decay))
            elif decay != 0:
                u = f32(u + f32(self.masters[i] * f32(decay)))
            self.first[i] = f32(f32(self.first[i] * f32(beta1)) + f32(u * f32(rate1)))
            self.second[i] = f32(f32(self.second[i] * f32(beta2)) + f32(f32(u * f32(rate2)) * u))
            root = quotient(f32(math.sqrt(self.second[i])), f32(correction2))
            step = quotient(self.first[i], f32(root + f32(group["eps"])))
            self.masters[i] = f32(self.masters[i] - f32(step * f32(lr / correction1)))

    def adamw(self, group: Mapping[str, float], terms: Sequence[Term], lr: float, rho: float) -> None:
        """Step all elements by AdamW."""
        self.adam(group, terms, lr, rho, decoupled=True)

    def adagrad(self, group: Mapping[str, float], terms: Sequence[Term], lr: float, rho: float) -> None:
        """Step all elements by Adagrad."""
        rate = f32(lr * rho / (1.0 + self.steps * group["lr_decay"]))
        for i in range(ELEMENTS):
            u = combined(terms, i)
            if group["weight_decay"] != 0:
                u = f32(u + f32(self.masters[i] * f32(group["weight_decay"])))
            self.first[i] = f32(self.first[i] + f32(f32(u * f32(rho)) * u))
            step = quotient(u, f32(f32(math.sqrt(self.first[i])) + f32(group["eps"])))
            self.masters[i] = f32(self.masters[i] - f32(step * rate))
        self.steps += 1


any_float = st.floats(width=32, allow_nan=False, allow_infinity=False)
usual_float = st.floats(-4.0, 4.0, width=32)
vectors = st.lists(any_float, min_size=ELEMENTS, max_size=ELEMENTS) | st.lists(
    usual_float, min_size=ELEMENTS, max_size=ELEMENTS
)
unit = st.floats(0.0, 1.0, exclude_max=True)
small = st.sampled_from([0.0, 1e-8, 0.01, 0.5])
groups = {
    "sgd": st.fixed_dictionaries({"momentum": unit | st.just(0.0), "dampening": unit, "weight_decay": small})
    | st.fixed_dictionaries({"momentum": st.floats(0.1, 1.0), "nesterov": st.just(1.0), "weight_decay": small}),
    "adam": st.fixed_dictionaries({"beta1": unit, "beta2": unit, "eps": small, "weight_decay": small}),
}
groups["adamw"] = groups["adam"]
groups["adagrad"] = st.fixed_dictionaries(
    {"lr_decay": small, "weight_decay": small, "initial_accumulator_value": small, "eps": small}
)
terms_of_a_version = st.lists(st.tuples(st.floats(0.0, 1.0, width=32), vectors | st.none()), min_size=1, max_size=3)
versions = st.lists(
    st.tuples(terms_of_a_version, st.floats(0.0, 1.0), st.sampled_from([1.0, 0.5, 0.3])), min_size=1, max_size=3
)


@pytest.mark.parametrize("name", RULES)
@given(data=st.data())
@settings(max_examples=30, deadline=None, derandomize=True)
def test_rules_agree_with_plain_python_to_the_bit(name: str, data: st.DataObject) -> None:
    """Any float32, denormals and -0.0 included, absent gradients, damping: the same bytes, or both refuse."""
    group = RULES[name].complete(data.draw(groups[name]))
    masters = data.draw(vectors)
    slow = Slow(list(masters), [f32(group.get("initial_accumulator_value", 0.0))] * ELEMENTS)
    shard = Shard(cut([("w", ELEMENTS, 0)]), RuleConfig(name=name, groups=(group,)), 0, np.array(masters, np.float32))
    step: Callable[[Mapping[str, float], Sequence[Term], float, float], None] = getattr(slow, name)
    for version, (terms, lr, rho) in enumerate(data.draw(versions), start=1):
        deltas = [
            (np.float32(a), np.array(gradient or [0.0] * ELEMENTS, np.float32), [gradient is not None])
            for a, gradient in terms
        ]
        try:
            if any(gradient is not None for _, gradient in terms):
                step(group, terms, lr, rho)
        except NotFinite:
            with pytest.raises(NonFiniteState):
                shard.apply(version, deltas, [lr], rho)
            return
        shard.apply(version, deltas, [lr], rho)
        wanted = dict(zip(shard.tensors(), (slow.masters, slow.first, slow.second), strict=False))
        for tensor, values in shard.tensors().items():
            assert values.tobytes() == struct.pack(f"={ELEMENTS}f", *wanted[tensor]), tensor
