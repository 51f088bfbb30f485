"""Stochastic gradient descent with weight decay, momentum, dampening and Nesterov's momentum.

Momentum is that of torch.optim.SGD: the buffer becomes momentum * buffer + (1 - dampening) * gradient, and the learning
rate multiplies the whole buffer. That differs from Sutskever et al., "On the importance of initialization and momentum
in deep learning", ICML 2013, whose look-ahead is the form of Nesterov's momentum used: gradient + momentum * buffer.
At a segment's first step the buffer is the gradient itself, undampened.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from driftline.rules.base import FloatArray, Kernel, Rule, Setting, Settings, StepState


@dataclass(frozen=True, slots=True)
class SgdKernel:
    """One step of SGD on one segment. ``None`` leaves a term out; ``first`` copies the gradient into the buffer."""

    lr: np.float32
    weight_decay: np.float32 | None
    momentum: np.float32 | None
    undampened: np.float32 | None
    nesterov: bool
    first: bool

    def __call__(
        self, master: FloatArray, moments: Sequence[FloatArray], update: FloatArray, scratch: FloatArray
    ) -> None:
        """Update ``master`` and the momentum buffer in place; see `Kernel`."""
        if self.weight_decay is not None:
            np.multiply(master, self.weight_decay, out=scratch)
            np.add(update, scratch, out=update)
        direction = update
        if self.momentum is not None:
            direction = self._follow(self.momentum, moments[0], update, scratch)
        np.multiply(direction, self.lr, out=scratch)
        np.subtract(master, scratch, out=master)

    def takes(self, gradient: FloatArray) -> bool:
        """Say whether a gradient can be the update as it is; see `Kernel`."""
        return self.weight_decay is None and not self.nesterov and gradient.flags.aligned

    def _follow(self, momentum: np.float32, buffer: FloatArray, update: FloatArray, scratch: FloatArray) -> FloatArray:
        if self.first:
            buffer[...] = update
        else:
            np.multiply(buffer, momentum, out=buffer)
            term = update
            if self.undampened is not None:
                term = np.multiply(update, self.undampened, out=scratch)
            np.add(buffer, term, out=buffer)
        if not self.nesterov:
            return buffer
        np.multiply(buffer, momentum, out=scratch)
        return np.add(update, scratch, out=update)


class Sgd(Rule):
    """SGD as in torch.optim.SGD. One moment, ``momentum_buffer``, if any group has momentum."""

    name: ClassVar[str] = "sgd"
    settings: ClassVar[Mapping[str, Setting]] = {
        "lr": Setting(1e-3),
        "momentum": Setting(0.0, high=1.0),
        "dampening": Setting(0.0, high=1.0),
        "weight_decay": Setting(0.0),
        "nesterov": Setting(0.0, flag=True),
    }

    witnessed: ClassVar[tuple[str, ...]] = ("momentum_buffer",)

    def moments(self, groups: Sequence[Settings]) -> tuple[str, ...]:
        """Name the momentum buffer, if any group has momentum."""
        return ("momentum_buffer",) if any(group.get("momentum", 0.0) != 0 for group in groups) else ()

    def conflicts(self, settings: Settings) -> list[str]:
        """Nesterov's look-ahead is defined with momentum and without dampening only."""
        if settings["nesterov"] and (settings["momentum"] == 0 or settings["dampening"] != 0):
            return ["nesterov: needs momentum above 0 and dampening 0"]
        return []

    def step(self, settings: Settings, state: StepState, lr: float, rho: float) -> tuple[StepState, Kernel]:
        """Begin one step; see `Rule.step`. ``rho`` is not used: damped coefficients have damped the gradient."""
        del rho
        kernel = SgdKernel(
            lr=np.float32(lr),
            weight_decay=_unless(0.0, settings["weight_decay"]),
            momentum=_unless(0.0, settings["momentum"]),
            undampened=_unless(1.0, 1.0 - settings["dampening"]),
            nesterov=bool(settings["nesterov"]),
            first=state.steps == 0,
        )
        return StepState(steps=state.steps + 1), kernel


def _unless(neutral: float, value: float) -> np.float32 | None:
    return None if value == neutral else np.float32(value)
