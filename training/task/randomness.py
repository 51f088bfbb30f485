"""Where every random number of a run comes from.

Nothing random depends on time, process ids or the order in which machines start: each use has its own seed, a SHA-256
of what it is for. So the same run made again draws the same numbers, whichever worker was slow.

torch is imported where it is seeded, not at the top: the order of the data needs `stable_seed` alone.
"""

import hashlib
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from driftline.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

    from driftline.training.task import Task


def stable_seed(*parts: str | int) -> int:
    """Hash the parts to a seed from 0 to 2⁶³ - 1, the same on every machine and in every Python.

    Each part is written with its type and length, so ``("a", "bc")`` and ``("ab", "c")``, or ``1`` and ``"1"``, differ.
    """
    digest = hashlib.sha256()
    for part in parts:
        # A worker's name may hold a lone surrogate when it comes from a file name; it must not stop a run here.
        text = f"{part}".encode(errors="surrogatepass")
        digest.update(f"{type(part).__name__}:{len(text)}:".encode() + text)
    return int.from_bytes(digest.digest()[:8], "little") >> 1


def raw_keys(count: int, *parts: str | int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return ``count`` random uint64 keys: the raw output of numpy's PCG64 seeded with `stable_seed` of the parts.

    numpy keeps the raw output of a bit generator the same for ever, but not what `Generator.permutation` makes of it;
    workers with different numpy must agree, so orders are made by sorting these keys.
    """
    return np.asarray(np.random.PCG64(stable_seed(*parts)).random_raw(count), dtype=np.uint64)


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


def build_model(task: "Task", seed: int) -> "nn.Module":
    """Build the task's model with weights that depend on the run's seed alone: every worker builds the same one.

    Args:
        task: whose `Task.model` is called.
        seed: the run's seed.

    Raises:
        UsageError: what the task builds is no torch module.
    """
    from torch import nn  # noqa: PLC0415 - see the top of this module

    with seeded("model", seed):
        model: object = task.model()
    if not isinstance(model, nn.Module):
        raise UsageError(f"model() of task {type(task).__name__} returned a {type(model).__name__}, not a torch module")
    return model


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
