"""Adagrad.

Duchi, Hazan & Singer, "Adaptive subgradient methods for online learning and stochastic optimization", JMLR 12 (2011),
in the diagonal form, with the learning rate decay and the order of operations of torch.optim.Adagrad.

Per element, in step t of the segment, counted from 1:

    g = g + decay p                         sum = sum + (rho g) g
    p = p - (lr rho / (1 + (t - 1) lr_decay)) (g / (sqrt(sum) + eps))

rho < 1 damps a stale gradient. As with Adam it has to act on the rate, because Adagrad divides by the gradient's own
size; and what it adds to the sum, which nothing ever takes away again, is as much smaller as the step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from driftline.rules.base import FloatArray, Kernel, Rule, Setting, Settings, StepState


@dataclass(frozen=True, slots=True)
class AdagradKernel:
    """One step of Adagrad on one segment. ``None`` leaves a term out: no decay, no damping."""

    l2: np.float32 | None
    rate: np.float32 | None
    eps: np.float32
    step_size: np.float32

    def __call__(
        self, master: FloatArray, moments: Sequence[FloatArray], update: FloatArray, scratch: FloatArray
    ) -> None:
        """Update ``master`` and the sum of squares in place; see `Kernel`."""
        (total,) = moments
        if self.l2 is not None:
            np.multiply(master, self.l2, out=scratch)
            np.add(update, scratch, out=update)
        damped = update if self.rate is None else np.multiply(update, self.rate, out=scratch)
        np.multiply(damped, update, out=scratch)
        np.add(total, scratch, out=total)
        np.sqrt(total, out=scratch)
        np.add(scratch, self.eps, out=scratch)
        np.divide(update, scratch, out=scratch)
        np.multiply(scratch, self.step_size, out=scratch)
        np.subtract(master, scratch, out=master)

    def takes(self, gradient: FloatArray) -> bool:
        """Say whether a gradient can be the update as it is; see `Kernel`."""
        return self.l2 is None and gradient.flags.aligned


class Adagrad(Rule):
    """Adagrad as in torch.optim.Adagrad. One moment, ``sum``: of the squares of all gradients so far."""

    name: ClassVar[str] = "adagrad"
    settings: ClassVar[Mapping[str, Setting]] = {
        "lr": Setting(1e-2),
        "lr_decay": Setting(0.0),
        "weight_decay": Setting(0.0),
        "initial_accumulator_value": Setting(0.0),
        "eps": Setting(1e-10),
    }
    damps_rates: ClassVar[bool] = True

    def moments(self, groups: Sequence[Settings]) -> tuple[str, ...]:
        """Name the sum of squares, whatever the groups are."""
        del groups
        return ("sum",)

    def initial(self, moment: str, settings: Settings) -> np.float32:
        """Return what the sum starts from."""
        del moment
        return np.float32(settings["initial_accumulator_value"])

    def step(self, settings: Settings, state: StepState, lr: float, rho: float) -> tuple[StepState, Kernel]:
        """Begin one step; see `Rule.step`."""
        weight_decay = settings["weight_decay"]
        kernel = AdagradKernel(
            l2=np.float32(weight_decay) if weight_decay != 0 else None,
            rate=np.float32(rho) if rho != 1.0 else None,
            eps=np.float32(settings["eps"]),
            step_size=np.float32(lr * rho / (1.0 + state.steps * settings["lr_decay"])),
        )
        return StepState(steps=state.steps + 1), kernel
