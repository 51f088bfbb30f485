"""A task whose gradients take a given time, and that says for how long it was busy."""

import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor, nn, optim

from driftline.training.task import Dataset, Task


class Paced(Task):
    """Another task, with a pause after each loss.

    Busy is the time from the making of a batch to the last gradient of its backward pass, the pause included.

    Args:
        inner: the task.
        pause_s: seconds.
        train: the inner task's training data, which is read once for many runs.
        stop: no more pauses and no more counting once it is set.
    """

    def __init__(self, inner: Task, pause_s: float, train: Dataset, stop: threading.Event) -> None:
        super().__init__(batch_size=inner.batch_size)
        self._inner, self._pause_s, self._train, self._stop = inner, pause_s, train, stop
        self._from_s: float | None = None
        self._until_s = 0.0
        self.first_s: float | None = None
        self.busy_s = 0.0
        self.gradients = 0

    def model(self) -> nn.Module:
        """Return the inner task's model, watched."""
        model = self._inner.model()
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(self._on_gradient)  # type: ignore[no-untyped-call]
        return model

    def data(self, split: str) -> Dataset:
        """Return the inner task's data."""
        return self._train if split == "train" else self._inner.data(split)

    def collate(self, items: Sequence[Any]) -> Any:
        """Make a batch as the inner task does: a gradient begins."""
        self.settle()
        if not self._stop.is_set():
            self._from_s = self._until_s = time.monotonic()
            self.first_s = self.first_s or self._from_s
        return self._inner.collate(items)

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        """Return the inner task's loss, later."""
        found = self._inner.loss(model, batch)
        self._stop.wait(self._pause_s)
        self._until_s = time.monotonic()
        return found

    def optimizer(self, model: nn.Module) -> optim.Optimizer:
        """Return the inner task's optimizer."""
        return self._inner.optimizer(model)

    def metrics(self, model: nn.Module, batches: Iterable[Any]) -> dict[str, float]:
        """Measure as the inner task does."""
        return self._inner.metrics(model, batches)

    def settle(self) -> None:
        """Count the last gradient, if any is uncounted."""
        if self._from_s is not None:
            self.busy_s += self._until_s - self._from_s
            self.gradients += 1
            self._from_s = None

    def _on_gradient(self, _: Tensor) -> None:
        self._until_s = time.monotonic()
