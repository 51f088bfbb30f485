"""What an update rule is: its settings, its moments, and one step on a block of numbers.

A rule computes with ``add subtract multiply divide sqrt`` and ``np.float32`` scalars only. IEEE 754 asks for the
correctly rounded result of each, so the bits depend neither on how a tensor is cut, nor on threads, nor on the CPU.
Everything else does somewhere: ``pow`` and ``sqrt`` of other libraries, fused multiply-add, sums in the order of a
vector unit, a float64 scalar that meets a float32 array. None of it may appear in a rule.

Scalars that depend on the step are computed once a step in float64 (Python floats: ``+ - * /`` and ``math.sqrt``, which
are correctly rounded too) and rounded to float32 once.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float32]
Settings: TypeAlias = Mapping[str, float]

FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class Setting:
    """A number that a parameter group may set.

    Attributes:
        default: what holds when the group does not set it; the same as in torch.optim.
        low: the smallest value.
        high: the largest value.
        open_end: ``high`` itself is not a value.
        flag: only 0 and 1 (or false and true) are values.
    """

    default: float
    low: float = 0.0
    high: float = FLOAT32_MAX
    open_end: bool = False
    flag: bool = False

    def problem(self, value: object) -> str:
        """Say what is wrong with a value; empty when nothing is."""
        if self.flag:
            return "" if value in (0, 1) else f"{value!r} is neither 0 nor 1"
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return f"{value!r} is not a finite number"
        if value < self.low or value > self.high or (self.open_end and value == self.high):
            return f"{value!r} is not {self._range()}"
        return ""

    def _range(self) -> str:
        if self.high == FLOAT32_MAX:
            return f"a float32 from {self.low:g} up"
        return f"from {self.low:g} to {'below ' if self.open_end else ''}{self.high:g}"


@dataclass(frozen=True, slots=True)
class StepState:
    """How far one segment has come. A segment without a gradient keeps its own: other segments may be ahead.

    Attributes:
        steps: updates applied to it.
        products: running products of decay rates, float64, for bias correction; 1.0 each before the first step.
    """

    steps: int = 0
    products: tuple[float, ...] = ()


class Kernel(Protocol):
    """One step of a rule, its scalars fixed, to be applied to one block of a segment after the other."""

    def __call__(
        self, master: FloatArray, moments: Sequence[FloatArray], update: FloatArray, scratch: FloatArray
    ) -> None:
        """Update ``master`` and ``moments`` in place.

        Args:
            master: master weights, float32, shape (elements,).
            moments: one array a moment, in the order of `Rule.moments`, each float32 of the same shape.
            update: the combined gradient, float32 of the same shape; overwritten, unless `takes` said otherwise.
            scratch: float32 of the same shape; overwritten.
        """

    def takes(self, gradient: FloatArray) -> bool:
        """Say whether ``gradient`` can be the update as it is, read-only, and is no slower than a copy of it would be.

        That saves the pass which a sum of one term with coefficient 1 would be.
        """


class Rule(ABC):
    """A family of update rules. Holds no state: one instance serves every shard and thread.

    Attributes:
        name: as in the run's configuration.
        settings: what a parameter group may set.
        products: how many running products of decay rates a segment keeps.
        damps_rates: how a stale gradient is damped. True: coefficients sum to 1, and the learning rate and the moment
            rates are multiplied by rho. False: the coefficients themselves are smaller, and rho is not used.
        witnessed: moments that cannot become infinite or NaN without the masters becoming so in the same step. The
            others have to be looked at: what divides the step hides, because a step divided by infinity is zero.
    """

    name: ClassVar[str]
    settings: ClassVar[Mapping[str, Setting]]
    products: ClassVar[int] = 0
    damps_rates: ClassVar[bool] = False
    witnessed: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def moments(self, groups: Sequence[Settings]) -> tuple[str, ...]:
        """Name the moments that a run with these parameter groups keeps, sorted; the same for every shard."""

    @abstractmethod
    def step(self, settings: Settings, state: StepState, lr: float, rho: float) -> tuple[StepState, Kernel]:
        """Begin one step of one segment.

        Args:
            settings: the segment's parameter group, complete (see `complete`).
            state: where the segment stands.
            lr: the learning rate of this step, from the ledger.
            rho: damping, 0 < rho ≤ 1; 1.0 gives the undamped bits.

        Returns:
            Where the segment stands afterwards, and the step to apply to each of its blocks.
        """

    def conflicts(self, settings: Settings) -> list[str]:
        """Say which settings of a complete group contradict each other."""
        del settings
        return []

    def initial(self, moment: str, settings: Settings) -> np.float32:
        """Return what every element of a moment is before the first step, in segments of this (complete) group."""
        del moment, settings
        return np.float32(0.0)

    def start(self) -> StepState:
        """Return the state of a segment before its first step."""
        return StepState(products=(1.0,) * self.products)

    def complete(self, settings: Settings) -> dict[str, float]:
        """Fill in the default of every setting that a group leaves out."""
        return {name: float(settings.get(name, setting.default)) for name, setting in self.settings.items()}
