"""Each sample of each epoch, one by one: who may read it, or what became of it. What leases are held to."""

from collections import Counter
from dataclasses import dataclass

from driftline.schemas.records import GroupId
from driftline.schemas.records.sample_range import Samples
from driftline.schemas.run.data import DataConfig


class Violation(AssertionError):
    """An invariant does not hold."""


def require(condition: bool, promise: str) -> None:  # noqa: FBT001 - reads like assert
    """Raise `Violation` unless ``condition`` holds."""
    if not condition:
        raise Violation(promise)


@dataclass(frozen=True, slots=True)
class Used:
    """A sample that will not be read again in its epoch, because it was consumed or because it was discarded."""

    word: str


CONSUMED, DISCARDED = Used("consumed"), Used("discarded")


class ReferenceSamples:
    """The fate of every sample, by epoch and place: None while it is free, the group that may read it, or `Used`."""

    def __init__(self, data: DataConfig) -> None:
        self._data = data
        self.epochs: list[list[GroupId | Used | None]] = []

    @property
    def is_done(self) -> bool:
        """Whether each sample was used as often as it was to be."""
        done = [epoch for epoch in self.epochs if all(isinstance(one, Used) for one in epoch)]
        return 0 < self._data.epochs == len(done)

    def lease(self, group: GroupId, samples: Samples) -> None:
        """A ledger record leases samples to a group."""
        for epoch, place in _places(samples):
            if epoch == len(self.epochs):
                require(all(None not in earlier for earlier in self.epochs), f"epoch {epoch} begins too early")
                self.epochs.append([None] * self._data.samples)
            require(epoch < len(self.epochs), f"epoch {epoch} begins after {len(self.epochs)} others")
            holder = self.epochs[epoch][place]
            require(holder is None, f"sample {place} of epoch {epoch} is leased to {group}, and {holder} has it")
            self.epochs[epoch][place] = group
        require(not self._data.epochs or len(self.epochs) <= self._data.epochs, "more epochs begin than there are")

    def use(self, group: GroupId, samples: Samples, how: Used) -> None:
        """A ledger record consumes or discards samples that a group may read."""
        for epoch, place in _places(samples):
            holder = self.epochs[epoch][place] if epoch < len(self.epochs) else None
            require(holder == group, f"sample {place} of epoch {epoch} is {how.word} by {group}, and {holder} has it")
            self.epochs[epoch][place] = how

    def free(self, group: GroupId) -> None:
        """A group is removed."""
        for epoch in self.epochs:
            epoch[:] = [None if one == group else one for one in epoch]

    def __str__(self) -> str:
        words = (
            Counter(one.word if isinstance(one, Used) else "free" if one is None else "leased" for one in epoch)
            for epoch in self.epochs
        )
        return "; ".join(f"epoch {number}: {dict(one)}" for number, one in enumerate(words))


def _places(samples: Samples) -> list[tuple[int, int]]:
    return [(one.epoch, place) for one in samples for place in range(one.start, one.stop)]
