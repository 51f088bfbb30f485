"""The gradient of several batches: Σ nᵢ gᵢ / Σ nᵢ, with n the denominators of their mean losses.

In float32, in the order in which the batches were read. Weights are taken relative to the first one above 0, so that
batches of one size are added as they are, and one batch alone comes out to the bit. A batch with n = 0 counts for
nothing, whatever its gradient is.
"""

import math

import numpy as np

from driftline.training.model.gradients import CollectedGradient
from driftline.training.model.layout import FlatArray


class WeightedMean:
    """Adds up the batches of one clock.

    Attributes:
        weight: Σ nᵢ.
    """

    def __init__(self) -> None:
        self.weight = 0.0
        self._first = 0.0
        self._shares = np.float32(0.0)
        self._loss = 0.0
        self._flat: FlatArray | None = None
        self._present: np.ndarray | None = None

    def add(self, found: CollectedGradient, mean: float, weight: float) -> None:
        """Add a batch: its gradient, which is ours from now on, its mean loss and its denominator."""
        if weight == 0:
            return
        self.weight += weight
        self._loss += mean * weight
        if self._flat is None or self._present is None:
            self._first, self._shares = weight, np.float32(1.0)
            self._flat, self._present = found.flat, found.present
            return
        share = np.float32(weight / self._first)
        self._shares += share
        np.multiply(found.flat, share, out=found.flat)
        np.add(self._flat, found.flat, out=self._flat)
        np.logical_or(self._present, found.present, out=self._present)

    @property
    def loss(self) -> float:
        """Σ nᵢ lᵢ / Σ nᵢ; NaN if nothing counts."""
        return self._loss / self.weight if self.weight else math.nan

    def result(self, elements: int, segments: int) -> tuple[FlatArray, list[bool]]:
        """Return the mean, shape (elements,), float32, and which of the segments any batch has a gradient for."""
        if self._flat is None or self._present is None:
            return np.zeros(elements, dtype=np.float32), [False] * segments
        np.divide(self._flat, self._shares, out=self._flat)
        return self._flat, self._present.tolist()
