"""Adam and AdamW.

Adam: Kingma & Ba, "Adam: a method for stochastic optimization", ICLR 2015. AdamW, which decays weights apart from the
gradient: Loshchilov & Hutter, "Decoupled weight decay regularization", ICLR 2019.

Per element, with r1 = (1 - beta1) rho, r2 = (1 - beta2) rho and P1, P2 the running products of 1 - r1 and 1 - r2:

    AdamW: p = p (1 - lr rho decay)         Adam: g = g + decay p
    m = (1 - r1) m + r1 g                   v = (1 - r2) v + (r2 g) g
    p = p - (lr rho / (1 - P1)) (m / (sqrt(v) / sqrt(1 - P2) + eps))

With rho = 1 this is torch.optim in its order of operations. rho < 1 damps a stale gradient. It has to act on the rates:
Adam divides by the gradient's own size, so a smaller gradient alone would change next to nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from driftline.rules.base import FloatArray, Kernel, Rule, Setting, Settings, StepState


@dataclass(frozen=True, slots=True)
class AdamKernel:
    """One step of Adam on one segment: ``shrink`` is decoupled decay, ``l2`` decay by the gradient.

    ``None`` leaves an operation out.
    """

    shrink: np.float32 | None
    l2: np.float32 | None
    decay1: np.float32
    rate1: np.float32
    decay2: np.float32
    rate2: np.float32
    root_correction2: np.float32 | None
    eps: np.float32
    step_size: np.float32

    def __call__(
        self, master: FloatArray, moments: Sequence[FloatArray], update: FloatArray, scratch: FloatArray
    ) -> None:
        """Update ``master`` and both moments in place; see `Kernel`."""
        exp_avg, exp_avg_sq = moments
        if self.shrink is not None:
            np.multiply(master, self.shrink, out=master)
        if self.l2 is not None:
            np.multiply(master, self.l2, out=scratch)
            np.add(update, scratch, out=update)
        np.multiply(exp_avg, self.decay1, out=exp_avg)
        np.multiply(update, self.rate1, out=scratch)
        np.add(exp_avg, scratch, out=exp_avg)
        np.multiply(exp_avg_sq, self.decay2, out=exp_avg_sq)
        np.multiply(update, self.rate2, out=scratch)
        np.multiply(scratch, update, out=scratch)
        np.add(exp_avg_sq, scratch, out=exp_avg_sq)
        np.sqrt(exp_avg_sq, out=scratch)
        if self.root_correction2 is not None:
            np.divide(scratch, self.root_correction2, out=scratch)
        np.add(scratch, self.eps, out=scratch)
        np.divide(exp_avg, scratch, out=scratch)
        np.multiply(scratch, self.step_size, out=scratch)
        np.subtract(master, scratch, out=master)

    def takes(self, gradient: FloatArray) -> bool:
        """Say whether a gradient can be the update as it is; see `Kernel`."""
        return self.l2 is None and gradient.flags.aligned


class Adam(Rule):
    """Adam as in torch.optim.Adam: weight decay is added to the gradient."""

    name: ClassVar[str] = "adam"
    settings: ClassVar[Mapping[str, Setting]] = {
        "lr": Setting(1e-3),
        "beta1": Setting(0.9, high=1.0, open_end=True),
        "beta2": Setting(0.999, high=1.0, open_end=True),
        "eps": Setting(1e-8),
        "weight_decay": Setting(0.0),
    }
    products: ClassVar[int] = 2
    damps_rates: ClassVar[bool] = True
    witnessed: ClassVar[tuple[str, ...]] = ("exp_avg",)
    decoupled: ClassVar[bool] = False

    def moments(self, groups: Sequence[Settings]) -> tuple[str, ...]:
        """Name both moments, whatever the groups are."""
        del groups
        return ("exp_avg", "exp_avg_sq")

    def step(self, settings: Settings, state: StepState, lr: float, rho: float) -> tuple[StepState, Kernel]:
        """Begin one step; see `Rule.step`."""
        lr = lr * rho
        decay1, rate1 = _rates(settings["beta1"], rho)
        decay2, rate2 = _rates(settings["beta2"], rho)
        product1, product2 = state.products[0] * decay1, state.products[1] * decay2
        weight_decay = settings["weight_decay"]
        kernel = AdamKernel(
            shrink=np.float32(1.0 - lr * weight_decay) if self.decoupled and weight_decay != 0 else None,
            l2=np.float32(weight_decay) if not self.decoupled and weight_decay != 0 else None,
            decay1=np.float32(decay1),
            rate1=np.float32(rate1),
            decay2=np.float32(decay2),
            rate2=np.float32(rate2),
            root_correction2=_root_correction(product2),
            eps=np.float32(settings["eps"]),
            step_size=np.float32(_step_size(lr, 1.0 - product1, 1.0 - product2)),
        )
        return StepState(steps=state.steps + 1, products=(product1, product2)), kernel


class AdamW(Adam):
    """AdamW as in torch.optim.AdamW: weights decay by ``lr * weight_decay``, apart from the gradient."""

    name: ClassVar[str] = "adamw"
    settings: ClassVar[Mapping[str, Setting]] = {**Adam.settings, "weight_decay": Setting(1e-2)}
    decoupled: ClassVar[bool] = True


def _rates(beta: float, rho: float) -> tuple[float, float]:
    rate = (1.0 - beta) * rho
    # 1 - (1 - beta) is not beta for every beta below 0.5, and undamped means the bits of plain Adam.
    return (beta if rho == 1.0 else 1.0 - rate), rate


def _root_correction(product: float) -> np.float32 | None:
    correction = np.float32(math.sqrt(1.0 - product))
    return None if correction == 1 else correction  # after some ten thousand steps: dividing by it changes no bit


def _step_size(lr: float, correction1: float, correction2: float) -> float:
    # A rate below half an ulp of 1 leaves its product at 1: nothing to correct by. Infinity lets the state say so.
    return lr / correction1 if correction1 > 0.0 and correction2 > 0.0 else math.inf
