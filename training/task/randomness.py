"""Where every random number of a run comes from.

Nothing random depends on time, process ids or the order in which machines start: each use has its own seed, a SHA-256
of what it is for. So the same run made again draws the same numbers, whichever worker was slow.

torch is imported where it is seeded, not at the top: commands import this before they need torch.
"""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np

from driftline.training.worker.order import stable_seed


def seed_everything(seed: int, worker: str, start: int, clock: int) -> None:
    """Seed Python, numpy's global generator and torch (every device) for one clock of one worker.

    Called before each forward pass: dropout and augmentation then depend on what is computed, not on what this
    process computed before.

    Args:
        seed: the run's seed.
        worker: the worker's name.
        start: how many starts of this worker came before in this run, 0 for the first.
        clock: the worker's count of contributions.
    """
    seed_from("worker", seed, worker, start, clock)


def seed_from(*parts: str | int) -> None:
    """Seed Python, numpy's global generator and torch from `stable_seed` of the parts."""
    import torch  # noqa: PLC0415 - see the top of this module

    # A seed each: from one seed Python and numpy, both Mersenne twisters, would draw the very same numbers.
    random.seed(stable_seed("python", *parts))
    # The old global generator is what other people's augmentation code draws from; it takes words of 32 bits.
    words = stable_seed("numpy", *parts)
    np.random.seed([words & 0xFFFFFFFF, words >> 32])  # noqa: NPY002
    if _has_accelerator():
        torch.manual_seed(stable_seed("torch", *parts))
    else:
        # The same for the CPU; manual_seed would spend milliseconds of every clock on devices that are not there.
        torch.default_generator.manual_seed(stable_seed("torch", *parts))


@lru_cache(maxsize=1)
def _has_accelerator() -> bool:
    import torch  # noqa: PLC0415 - see the top of this module

    return torch.cuda.is_available() or torch.backends.mps.is_available() or torch.xpu.is_available()


@contextmanager
def seeded(*parts: str | int) -> Iterator[None]:
    """Seed as `seed_from` does for a block, and put the generators of Python, numpy and torch's CPU back behind it."""
    import torch  # noqa: PLC0415 - see the top of this module

    before, before_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        seed_from(*parts)
        try:
            yield
        finally:
            random.setstate(before)
            np.random.set_state(before_numpy)  # noqa: NPY002


def set_torch_defaults(threads: int = 1) -> None:
    """Make torch in this process reproducible, and leave the other cores to the other workers.

    Operations that have no deterministic form still run, and torch warns about them once: they weaken only that two
    runs give the same numbers, never that the log proves what happened. Between kinds of CPU the last bits of a
    gradient may differ whatever is set here.

    Args:
        threads: of one operation. One is the default because many workers on one machine with all cores each are
            slower than with one each, and because the order of sums depends on it.
    """
    import torch  # noqa: PLC0415 - see the top of this module

    # cuBLAS reads this when it starts; without it its results may differ between two runs.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_num_threads(threads)
    # The same switch as use_deterministic_algorithms(True, warn_only=True), which also imports all of torch's compiler.
    torch.set_deterministic_debug_mode("warn")
