"""The rules once more, as loops over elements, for a compiler: one pass over memory instead of one for each operation.

Every line does what the rule's numpy kernel does, in its order, each operation rounded to float32 on its own. The loops
are plain Python: interpreted, with ``np.float32`` scalars, they give the same bits, slowly. A factor that is 1 where
the numpy kernel leaves an operation out changes no bit; a term that would be zero does (-0.0 + 0.0 is 0.0), so whether
there is one is a constant of its own.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from driftline.rules.adagrad import AdagradKernel
from driftline.rules.adamw import AdamKernel
from driftline.rules.base import FloatArray, Kernel
from driftline.rules.sgd import SgdKernel

Loop: TypeAlias = Callable[..., None]
"""Takes masters, the moments that it uses, the update and its constants."""

ZERO, ONE = np.float32(0.0), np.float32(1.0)


class AdamConstants(NamedTuple):
    """Scalars of one step; see `AdamKernel`."""

    shrink: np.float32
    has_l2: bool
    l2: np.float32
    decay1: np.float32
    rate1: np.float32
    decay2: np.float32
    rate2: np.float32
    root_correction2: np.float32
    eps: np.float32
    step_size: np.float32


def adam_loop(
    master: FloatArray, exp_avg: FloatArray, exp_avg_sq: FloatArray, update: FloatArray, c: AdamConstants
) -> None:
    """Step by Adam or AdamW."""
    for i in range(master.size):
        p = master[i] * c.shrink
        u = update[i]
        if c.has_l2:
            u = u + p * c.l2
        m = exp_avg[i] * c.decay1 + u * c.rate1
        v = exp_avg_sq[i] * c.decay2 + (u * c.rate2) * u
        exp_avg[i] = m
        exp_avg_sq[i] = v
        master[i] = p - (m / (np.sqrt(v) / c.root_correction2 + c.eps)) * c.step_size


class AdagradConstants(NamedTuple):
    """Scalars of one step; see `AdagradKernel`."""

    has_l2: bool
    l2: np.float32
    rate: np.float32
    eps: np.float32
    step_size: np.float32


def adagrad_loop(master: FloatArray, total: FloatArray, update: FloatArray, c: AdagradConstants) -> None:
    """Step by Adagrad."""
    for i in range(master.size):
        p = master[i]
        u = update[i]
        if c.has_l2:
            u = u + p * c.l2
        s = total[i] + (u * c.rate) * u
        total[i] = s
        master[i] = p - (u / (np.sqrt(s) + c.eps)) * c.step_size


class SgdConstants(NamedTuple):
    """Scalars of one step; see `SgdKernel`."""

    has_l2: bool
    l2: np.float32
    lr: np.float32
    first: bool
    momentum: np.float32
    undampened: np.float32
    nesterov: bool


def momentum_loop(master: FloatArray, buffer: FloatArray, update: FloatArray, c: SgdConstants) -> None:
    """Step by SGD with momentum."""
    for i in range(master.size):
        p = master[i]
        u = update[i]
        if c.has_l2:
            u = u + p * c.l2
        b = u if c.first else buffer[i] * c.momentum + u * c.undampened
        buffer[i] = b
        d = u + b * c.momentum if c.nesterov else b
        master[i] = p - d * c.lr


def sgd_loop(master: FloatArray, update: FloatArray, c: SgdConstants) -> None:
    """Step by SGD without momentum."""
    for i in range(master.size):
        p = master[i]
        u = update[i]
        if c.has_l2:
            u = u + p * c.l2
        master[i] = p - u * c.lr


def loop_of(kernel: Kernel) -> tuple[Loop, int, tuple[np.float32 | bool, ...]] | None:
    """Return the loop for a kernel, how many moments it uses, and its constants; None if the kernel has no loop."""
    match kernel:
        case AdamKernel():
            return adam_loop, 2, _adam(kernel)
        case AdagradKernel():
            rate = ONE if kernel.rate is None else kernel.rate
            return adagrad_loop, 1, AdagradConstants(*_term(kernel.l2), rate, kernel.eps, kernel.step_size)
        case SgdKernel(momentum=None):
            return sgd_loop, 0, _sgd(kernel)
        case SgdKernel():
            return momentum_loop, 1, _sgd(kernel)
        case _:
            return None


def _adam(kernel: AdamKernel) -> AdamConstants:
    return AdamConstants(
        ONE if kernel.shrink is None else kernel.shrink,
        *_term(kernel.l2),
        decay1=kernel.decay1,
        rate1=kernel.rate1,
        decay2=kernel.decay2,
        rate2=kernel.rate2,
        root_correction2=ONE if kernel.root_correction2 is None else kernel.root_correction2,
        eps=kernel.eps,
        step_size=kernel.step_size,
    )


def _sgd(kernel: SgdKernel) -> SgdConstants:
    return SgdConstants(
        *_term(kernel.weight_decay),
        lr=kernel.lr,
        first=kernel.first,
        momentum=ZERO if kernel.momentum is None else kernel.momentum,
        undampened=ONE if kernel.undampened is None else kernel.undampened,
        nesterov=kernel.nesterov,
    )


def _term(factor: np.float32 | None) -> tuple[bool, np.float32]:
    return (False, ZERO) if factor is None else (True, factor)
