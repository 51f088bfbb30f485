"""The weighted sum of contributions has one order and one meaning of an absent gradient."""

import numpy as np
import pytest

from driftline.rules import FloatArray, combine
from tests.support.shard_models import numbers


def combined(*terms: tuple[float, FloatArray | None]) -> FloatArray:
    """Return the sum of five elements in a new array."""
    out, scratch = np.full(5, np.nan, np.float32), np.full(5, np.nan, np.float32)
    combine([(np.float32(a), gradient) for a, gradient in terms], out, scratch)
    return out


def test_the_sum_starts_from_the_first_term() -> None:
    """Started from 0.0, the sum would turn -0.0 into +0.0; a single contribution arrives as it was sent."""
    gradient = np.array([-0.0, 0.0, -1.5, 1e-45, 1e38], np.float32)
    assert combined((1.0, gradient)).tobytes() == gradient.tobytes()
    assert combined((1.0, gradient), (1.0, gradient))[:1].tobytes() == np.float32(-0.0).tobytes()


@pytest.mark.parametrize("place", [0, 1])
def test_an_absent_gradient_is_a_term_of_plus_zero(place: int) -> None:
    """As in an exact reduction, which has to send something: -0.0 + 0.0 = 0.0, to the byte."""
    gradient = np.array([-0.0, 0.0, -1.5, 1e-45, 1e38], np.float32)
    terms: list[tuple[float, FloatArray | None]] = [(1.0, gradient)]
    absent, zeros = list(terms), list(terms)
    absent.insert(place, (0.5, None))
    zeros.insert(place, (1.0, np.zeros(5, np.float32)))
    assert combined(*absent).tobytes() == combined(*zeros).tobytes()
    assert combined(*absent)[:1].tobytes() == np.float32(0.0).tobytes()


def test_the_order_is_the_callers() -> None:
    """1e8 + 1 - 1e8 is 0 in float32, 1e8 - 1e8 + 1 is 1."""
    big, one = np.full(5, 1e8, np.float32), np.ones(5, np.float32)
    assert combined((1.0, big), (1.0, one), (-1.0, big)).tolist() == [0.0] * 5
    assert combined((1.0, big), (-1.0, big), (1.0, one)).tolist() == [1.0] * 5


def test_each_product_is_rounded_before_it_is_added() -> None:
    """A fused multiply-add would keep the product's other digits: here it gives a sum other than zero."""
    x = np.full(5, 1 + 2**-12, np.float32)
    square = np.multiply(x, x)
    assert combined((-1.0, square), (float(x[0]), x)).tobytes() == np.zeros(5, np.float32).tobytes()


def test_nothing_to_combine_is_an_error() -> None:
    """The caller leaves a segment alone that no contribution has a gradient for."""
    with pytest.raises(ValueError, match="nothing to combine"):
        combined((1.0, None), (0.5, None))


def test_inputs_may_be_read_only_and_stay_as_they_are() -> None:
    """Gradients are views of the bytes of a message."""
    message = numbers("message", 5).tobytes()
    before = bytes(bytearray(message))
    combined((0.5, np.frombuffer(message, np.float32)), (0.5, np.frombuffer(message, np.float32)))
    assert message == before
