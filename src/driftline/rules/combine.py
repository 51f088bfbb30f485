"""The weighted sum of contributions, in one order only."""

from collections.abc import Sequence

import numpy as np

from driftline.rules.base import FloatArray

_ZERO = np.float32(0.0)


def combine(terms: Sequence[tuple[np.float32, FloatArray | None]], out: FloatArray, scratch: FloatArray) -> None:
    """Compute u = Σ aᵢ gᵢ in the order given, starting from the first term.

    Starting from the first term instead of from zero keeps -0.0 and lets one contribution with coefficient 1 arrive as
    it is. A contribution without a gradient here is a term +0.0 that is added, as in an exact reduction.

    Args:
        terms: coefficient and gradient, float32 of shape (elements,), or None if the contribution has none.
        out: receives u; float32, shape (elements,).
        scratch: float32 of the same shape; overwritten.

    Raises:
        ValueError: no contribution has a gradient; the caller must leave such a segment untouched.
    """
    if all(gradient is None for _, gradient in terms):
        raise ValueError("nothing to combine: no contribution has a gradient")
    (coefficient, gradient), *rest = terms
    if gradient is None:
        out.fill(_ZERO)
    else:
        _multiply(gradient, coefficient, out)
    for coefficient, gradient in rest:
        if gradient is None:
            np.add(out, _ZERO, out=out)  # turns -0.0 into +0.0
        else:
            _multiply(gradient, coefficient, scratch)
            np.add(out, scratch, out=out)


def _multiply(gradient: FloatArray, coefficient: np.float32, out: FloatArray) -> None:
    if gradient.flags.aligned and coefficient != 1:
        np.multiply(gradient, coefficient, out=out)
        return
    np.copyto(out, gradient)  # a payload begins at any byte; arithmetic on such an array is slower than a copy of it
    if coefficient != 1:
        np.multiply(out, coefficient, out=out)
