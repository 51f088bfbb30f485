"""Tasks: what `driftline train` trains, and the processes that train and measure it.

Entry points: `Task`, which a user subclasses; `loading.load_task`, which makes a name on the command line one;
`worker.work` and `evaluating.evaluate_run`, the loops of the two processes.

A task's process is a worker like any other: the protocol is `training.worker`'s and `producers`', and what torch
models are as vectors is `training.model`'s. Users' own scripts belong to `training.optimizer`.

Nothing of this package imports torch before a task is loaded, so that the command line starts quickly.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor, nn, optim


class Dataset(Protocol):
    """What `Task.data` returns: samples by number. Any map-style torch data set, list or tuple fits."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


@dataclass(kw_only=True)
class Task(ABC):
    """A model, its data and how it learns. Write a subclass; make it a dataclass and its fields are its settings.

    A setting has a default and is a ``str``, ``int``, ``float`` or ``bool``, or one of these or None.

    Attributes:
        batch_size: samples of one worker's gradient, at least 1.
    """

    batch_size: int = 32

    def prepare(self) -> None:  # noqa: B027 - a task may leave it out
        """Do once a process, before anything else, what takes long: read or unpack files. Nothing by default."""

    @abstractmethod
    def model(self) -> "nn.Module":
        """Return a new model. torch is seeded from the run's seed before, so that all workers build the same one."""

    @abstractmethod
    def data(self, split: str) -> Dataset:
        """Return the samples of ``split``: ``train`` or ``test``. Every worker must get the same ones."""

    @abstractmethod
    def loss(self, model: "nn.Module", batch: Any) -> "tuple[Tensor, float]":
        """Return the mean loss of a batch, shape (), and the denominator of that mean, usually the sample count.

        The denominator is the weight of this worker's gradient in the mean over workers; 0 leaves it out.
        """

    @abstractmethod
    def optimizer(self, model: "nn.Module") -> "optim.Optimizer":
        """Return the torch optimizer whose settings the run takes over."""

    @abstractmethod
    def metrics(self, model: "nn.Module", batches: Iterable[Any]) -> dict[str, float]:
        """Measure a model in evaluation mode, without gradients, on batches of the test split."""

    def collate(self, items: Sequence[Any]) -> Any:
        """Make one batch of samples: torch's default stacks tensors and numbers, through tuples and mappings."""
        from torch.utils.data import default_collate  # noqa: PLC0415 - see the top of this module

        return default_collate(list(items))


def read_batch(task: Task, dataset: Dataset, indices: Iterable[int]) -> Any:
    """Read the samples of these numbers and make them one batch. At least one number is needed."""
    return task.collate([dataset[int(index)] for index in indices])
