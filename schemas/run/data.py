"""Which samples a run trains on, as far as it decides numbers: they are leased to the workers in the ledger."""

from dataclasses import dataclass

MOST_SAMPLES = 2**53
MOST_EPOCHS = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class DataConfig:
    """The training data.

    Attributes:
        samples: how many there are; workers that hold another number are refused. 0: the workers' own business, the
            ledger leases nothing.
        batch_size: samples of one batch, at most; 0 where only the workers' scripts know.
        block: samples that are leased to a worker at a time. It holds so many, or more, as long as there are any.
        epochs: the run ends when each sample was used so often; 0 leaves its end to the number of versions.
    """

    samples: int = 0
    batch_size: int = 0
    block: int = 0
    epochs: int = 0

    @property
    def is_leased(self) -> bool:
        """Whether the ledger says who reads which samples."""
        return self.samples > 0


def data_problems(one: DataConfig) -> list[str]:
    """Everything that is wrong, each with the valid range; empty when it can be used."""
    problems = []
    for name, most in (("samples", MOST_SAMPLES), ("batch_size", MOST_SAMPLES), ("block", MOST_SAMPLES)):
        problems += _whole(name, getattr(one, name), most)
    problems += _whole("epochs", one.epochs, MOST_EPOCHS)
    if problems:
        return problems
    if one.is_leased and one.block < max(1, one.batch_size):
        problems.append(f"block: {one.block} is less than a batch of {max(1, one.batch_size)}; nobody could read one")
    if one.epochs and not one.is_leased:
        problems.append(f"epochs: {one.epochs}, but how many samples there are is not known; give samples, or steps")
    return problems


def _whole(name: str, value: object, most: int) -> list[str]:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        return [f"{name}: {value!r} is not a whole number from 0 to {most}"]
    return []
