"""Which samples a worker reads, as a pure function of its name and its position.

The data is cut once, by the names of the run's first members. In epoch ``e`` the samples are put in a new order, and
the worker of rank ``r`` of ``N`` takes every N-th of that order from place ``r`` on, in batches. All ranks have the
same number of batches an epoch, that of the largest part; a rank whose part is used up earlier has an empty batch
there. So every sample is read exactly once an epoch, and all ranks begin the next epoch at the same cursor.

The order is this and nothing else: ``numpy.argsort(keys, kind="stable")``, with one raw 64-bit output of numpy's
``PCG64`` a sample as keys, seeded with ``stable_seed("data order", seed, epoch)``.

No worker takes over the part of one that went away, and a worker that was not among the first shares the part of one
that was.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from driftline.errors import UsageError
from driftline.training.randomness import raw_keys, stable_seed

Indices: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Part:
    """A worker's part of the data: the ``rank``-th of ``ranks``.

    ``note`` is empty for a first member. Otherwise it says that the part is shared with another worker.
    """

    rank: int
    ranks: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The samples of one batch: ``indices`` has shape (n,), int64, with n = 0 when the rank has none left."""

    epoch: int
    index: int
    indices: Indices


@dataclass(frozen=True, slots=True)
class DataPlan:
    """How a data set is dealt out: ``samples`` to ``ranks`` workers in batches of ``batch_size``, shuffled by ``seed``.

    Raises:
        UsageError: a number is out of range.
    """

    samples: int
    ranks: int
    batch_size: int
    seed: int

    def __post_init__(self) -> None:
        for name, low in (("samples", 1), ("ranks", 1), ("batch_size", 1), ("seed", 0)):
            value: int = getattr(self, name)
            if value < low:
                raise UsageError(f"{name} is {value}; the data can be dealt out only with {name} at least {low}")

    @property
    def batches_per_epoch(self) -> int:
        """Batches of every rank in one epoch, the empty ones included."""
        largest_part = -(-self.samples // self.ranks)
        return -(-largest_part // self.batch_size)

    def batch(self, rank: int, cursor: int) -> BatchPlan:
        """Return the samples of a rank's batch number ``cursor``, counted from 0 over all epochs.

        In lock-step the cursor is the version that the batch's gradient starts from.

        Raises:
            UsageError: rank or cursor is out of range.
        """
        if not 0 <= rank < self.ranks:
            raise UsageError(f"rank {rank} is not one of the {self.ranks} ranks, 0 to {self.ranks - 1}")
        if cursor < 0:
            raise UsageError(f"cursor {cursor} is negative; batches are counted from 0")
        epoch, index = divmod(cursor, self.batches_per_epoch)
        part = epoch_order(self.samples, self.seed, epoch)[rank :: self.ranks]
        return BatchPlan(epoch, index, part[index * self.batch_size : (index + 1) * self.batch_size])


@lru_cache(maxsize=2)  # the epoch that ends and the one that begins
def epoch_order(samples: int, seed: int, epoch: int) -> Indices:
    """Return the order of an epoch: a permutation of 0 … samples - 1, shape (samples,), int64, read-only."""
    order = np.argsort(raw_keys(samples, "data order", seed, epoch), kind="stable").astype(np.int64, copy=False)
    order.flags.writeable = False
    return order


def part_of(worker: str, first_members: Iterable[str]) -> Part:
    """Return the part of a worker: its rank is its name's place among the sorted names of the first members.

    A name that is not among them takes, by a stable hash, the part of one that is, and the note says so.

    Raises:
        UsageError: there are no first members.
    """
    names = sorted(set(first_members))
    if not names:
        raise UsageError("the run has no first members yet, so the data has no parts; wait for the first Membership")
    if worker in names:
        return Part(names.index(worker), len(names))
    rank = stable_seed("part", worker) % len(names)
    note = (
        f"worker {worker!r} was not among the run's first {len(names)}: it reads the part of {names[rank]!r}, "
        f"whose samples are then used twice an epoch if that worker is still there"
    )
    return Part(rank, len(names), note)


def steps_for_epochs(samples: int, workers: int, batch_size: int, epochs: int) -> int:
    """Return how many versions a lock-step run makes in ``epochs`` passes over the data.

    Raises:
        UsageError: a number is below 1.
    """
    if epochs < 1:
        raise UsageError(f"epochs is {epochs}; it must be at least 1")
    return epochs * DataPlan(samples, workers, batch_size, seed=0).batches_per_epoch
