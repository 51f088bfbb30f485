"""The quick look at numbers overlooks neither an infinity nor a NaN, wherever it is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftline.rules import RULES, FloatArray, StepState
from driftline.schemas.model.tensors import QUICK, surely_finite

SIZES = (1, 15, QUICK - 1, QUICK, 2 * QUICK + 5)


@given(
    size=st.sampled_from(SIZES),
    count=st.integers(1, 4),
    bad=st.sampled_from([np.inf, -np.inf, np.nan]),
    others=st.sampled_from([0.0, -1.0, 1e-45, 3e38, -3e38, np.inf, -np.inf]),
    data=st.data(),
)
@settings(max_examples=30, deadline=None, derandomize=True)
def test_nothing_is_overlooked(size: int, count: int, bad: float, others: float, data: st.DataObject) -> None:
    """Beside zeros, huge numbers and other infinities, in any tensor and place."""
    tensors = [np.full(size, others, np.float32) for _ in range(count)]
    tensors[data.draw(st.integers(0, count - 1))][data.draw(st.integers(0, size - 1))] = bad
    with np.errstate(all="ignore"):
        assert not surely_finite(tensors)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_usual_numbers_are_found_finite_at_the_first_look(size: int, count: int) -> None:
    """Else every block would be looked at twice."""
    assert surely_finite([np.full(size, value, np.float32) for value in (1e10, -1e15, 1e-45)[:count]])


@pytest.mark.parametrize("name", RULES)
@given(
    values=st.lists(st.floats(width=32, min_value=0.0), min_size=4, max_size=4),
    bad=st.sampled_from([np.inf, -np.inf, np.nan]),
    lr=st.floats(0.0, 1e30),
    nesterov=st.sampled_from([0.0, 1.0]),
)
@settings(max_examples=30, deadline=None, derandomize=True)
def test_masters_witness_the_moments_that_are_not_looked_at(
    name: str, values: list[float], bad: float, lr: float, nesterov: float
) -> None:
    """A step from a state with a moment beyond the finite numbers gives masters, or a moment looked at, beyond them."""
    rule = RULES[name]
    group = rule.complete({"momentum": 0.9, "nesterov": nesterov} if name == "sgd" else {})
    names = rule.moments([group])
    for witnessed in rule.witnessed:
        tensors = {moment: np.full(1, value, np.float32) for moment, value in zip(names, values, strict=False)}
        tensors[witnessed][:] = bad
        master, update = np.full(1, values[2], np.float32), np.full(1, values[3], np.float32)
        _, kernel = rule.step(group, StepState(9, (0.5,) * rule.products), lr, 1.0)
        with np.errstate(all="ignore"):
            kernel(master, list(tensors.values()), update, np.empty(1, np.float32))
        seen: list[FloatArray] = [master, *(tensors[moment] for moment in names if moment not in rule.witnessed)]
        assert not all(np.isfinite(values).all() for values in seen)
