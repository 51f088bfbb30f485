"""Which samples a run trains on, as far as it decides numbers: the ledger leases them to the workers."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Interval

from driftline.schemas.run.setting import Strict, Whole


@dataclass(frozen=True, slots=True, kw_only=True)
class DataConfig(Strict):
    """The training data.

    Attributes:
        samples: how many there are; workers that hold another number are refused. 0: the ledger leases none.
        batch_size: samples of one batch, at most; 0 if only the workers' scripts know.
        block: samples that are leased to a worker at a time, as long as so many are left.
        epochs: the run ends when each sample was used so often; 0 if it ends by its number of versions.
    """

    samples: Whole = 0
    batch_size: Whole = 0
    block: Whole = 0
    epochs: Annotated[int, Interval(ge=0, le=2**31)] = 0

    @property
    def is_leased(self) -> bool:
        """Whether the ledger says which worker reads which samples."""
        return self.samples > 0

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield fields that contradict each other, each with the reason."""
        batch = max(1, self.batch_size)
        if self.is_leased and self.block < batch:
            yield "block", f"{self.block} is less than a batch of {batch}, so no worker could read one"
        if self.epochs and not self.is_leased:
            yield "epochs", f"{self.epochs}, but how many samples there are is not known; give samples, or steps"
