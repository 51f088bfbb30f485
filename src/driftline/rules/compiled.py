"""The `loops`, compiled by numba and compared with numpy before they are used.

numba compiles without ``fastmath``, so LLVM may neither fuse a product with a sum nor reorder anything. That is not
taken on trust: on numbers where a fused, wider or flushed operation shows, every loop has to give numpy's bits first.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from driftline.rules.adagrad import Adagrad
from driftline.rules.adamw import Adam, AdamW
from driftline.rules.base import FloatArray, Kernel, Rule, Settings
from driftline.rules.loops import Loop, loop_of
from driftline.rules.sgd import Sgd

CHECKED = 1003
"""Elements compared: odd, so that what a vector unit leaves over is computed too."""

SAMPLES: Sequence[tuple[Rule, Settings]] = (
    (AdamW(), {}),
    (Adam(), {"weight_decay": 0.1}),
    (Adagrad(), {"weight_decay": 0.1, "lr_decay": 0.01}),
    (Sgd(), {"momentum": 0.9, "dampening": 0.3}),
    (Sgd(), {"momentum": 0.9, "nesterov": 1.0, "weight_decay": 0.1}),
    (Sgd(), {"weight_decay": 0.1}),
)
"""Rules and settings that together go through every line of every loop."""


@dataclass(frozen=True, slots=True)
class LoopKernel:
    """One step of a rule as a loop; see `Kernel`."""

    loop: Loop
    moments: int
    constants: tuple[np.float32 | bool, ...]

    def __call__(
        self, master: FloatArray, moments: Sequence[FloatArray], update: FloatArray, scratch: FloatArray
    ) -> None:
        """Update ``master`` and ``moments`` in place; ``update`` and ``scratch`` stay as they are."""
        del scratch
        self.loop(master, *moments[: self.moments], update, self.constants)

    def takes(self, gradient: FloatArray) -> bool:
        """Take any gradient as the update: a loop does not write to it, and reads it wherever it begins."""
        del gradient
        return True


def bind_to(loops: Mapping[Loop, Loop], kernel: Kernel) -> Kernel:
    """Return the kernel as a loop, in its compiled form; a kernel without a loop stays as it is."""
    found = loop_of(kernel)
    return kernel if found is None else LoopKernel(loops[found[0]], found[1], found[2])


@cache
def compile_loops() -> tuple[str, Callable[[Kernel], Kernel], tuple[str, ...]]:
    """Compile every loop, once a process.

    Returns:
        The version of numba, what turns a kernel into its compiled form, and how its bits differ from numpy's: nothing
        on every machine seen so far.

    Raises:
        ImportError: numba is not installed, or does not fit the numpy that is.
    """
    import numba  # noqa: PLC0415 - an extra, and slow to import

    array = numba.types.Array(numba.float32, 1, "C")
    gradient = numba.types.Array(numba.float32, 1, "C", readonly=True, aligned=False)
    loops: dict[Loop, Loop] = {}
    for rule, settings in SAMPLES:
        _, kernel = rule.step(rule.complete(settings), rule.start(), 0.1, 1.0)
        found = loop_of(kernel)
        if found is not None and found[0] not in loops:
            loop, moments, constants = found
            signature = numba.void(array, *[array] * moments, gradient, numba.typeof(constants))
            # error_model: a division by zero gives an infinity, as IEEE 754 says, and not an exception.
            loops[loop] = numba.njit(signature, error_model="numpy", fastmath=False, nogil=True)(loop)

    def bind(kernel: Kernel) -> Kernel:
        return bind_to(loops, kernel)

    return numba.__version__, bind, tuple(differences(bind))


def differences(bind: Callable[[Kernel], Kernel]) -> Iterator[str]:
    """Say in which samples bound kernels give other bits than numpy's, after two steps, the second one damped."""
    for rule, settings in SAMPLES:
        group, state = rule.complete(settings), rule.start()
        moments = len(rule.moments([group]))
        ours, theirs = ([_numbers(0), *(np.abs(_numbers(1)) for _ in range(moments))] for _ in range(2))
        for seed, rho in ((2, 1.0), (3, 0.5)):
            state, kernel = rule.step(group, state, 0.1, rho)
            for step, (master, *rest) in ((kernel, ours), (bind(kernel), theirs)):
                step(master, rest, _numbers(seed), np.empty(CHECKED, np.float32))
        wrong = sum(int(np.count_nonzero(a.view("u4") != b.view("u4"))) for a, b in zip(ours, theirs, strict=True))
        if wrong:
            yield f"{rule.name} {dict(settings)}: {wrong} of {(1 + moments) * CHECKED} numbers differ"


def _numbers(seed: int) -> FloatArray:
    """Return numbers of either sign and of every size up to 2**33, a tenth of them denormal."""
    rng = np.random.default_rng(seed)
    exponents = rng.integers(0, 160, CHECKED, dtype=np.uint32) * (rng.random(CHECKED) > 0.1)  # noqa: PLR2004
    rest = rng.integers(0, 2**32, CHECKED, dtype=np.uint32) & np.uint32(0x807F_FFFF)
    return (rest | exponents.astype(np.uint32) << np.uint32(23)).view(np.float32)
