"""The order in which samples are read, the same on every machine, and the seeds that it comes from.

Each epoch puts the samples in a new order, which is this and nothing else: ``numpy.argsort(keys, kind="stable")``, with
one raw 64-bit output of numpy's ``PCG64`` a sample as keys, seeded with ``stable_seed("data order", seed, epoch)``. The
ledger leases positions of that order to workers (`driftline.ledger.leases`).
"""

import hashlib
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Indices: TypeAlias = npt.NDArray[np.int64]


@lru_cache(maxsize=2)  # the epoch that ends and the one that begins
def epoch_order(samples: int, seed: int, epoch: int) -> Indices:
    """Return the order of an epoch: a permutation of 0 … samples - 1, shape (samples,), int64, read-only."""
    order = np.argsort(raw_keys(samples, "data order", seed, epoch), kind="stable").astype(np.int64, copy=False)
    order.flags.writeable = False
    return order


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
