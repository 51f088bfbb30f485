"""Handwritten digits: 1,797 real images of 8 x 8 pixels that come inside scikit-learn, so nothing is downloaded.

Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998
(its test part, 13 writers).
"""

import gzip
import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn, optim
from torch.nn import functional

from driftline.errors import UsageError
from driftline.training.task import Dataset, Task
from driftline.training.task.builtin.classifying import accuracy_and_loss
from driftline.training.worker.order import raw_keys

SIDE = 8
CLASSES = 10
BRIGHTEST = 16.0
"""Of the pixels in the source, which are whole numbers from 0."""

TEST_EVERY = 5
"""One in so many samples of each digit is held out."""


@dataclass(kw_only=True)
class Digits(Task):
    """Tell ten handwritten digits apart with a small convolutional network.

    Attributes:
        batch_size: samples of one worker's gradient.
        learning_rate: of AdamW.
        weight_decay: of AdamW.
        channels: of the first convolution; the second has twice as many.
    """

    learning_rate: float = 5e-3
    weight_decay: float = 1e-2
    channels: int = 16

    def model(self) -> nn.Module:
        """Return two 3 x 3 convolutions, each with ReLU and a 2 x 2 maximum, and a linear layer to 10 scores."""
        return nn.Sequential(
            nn.Unflatten(1, (1, SIDE, SIDE)),
            nn.Conv2d(1, self.channels, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(self.channels, 2 * self.channels, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(2 * self.channels * (SIDE // 4) ** 2, CLASSES),
        )

    def data(self, split: str) -> Dataset:
        """Return (image, digit) pairs: float32 of shape (64,) from 0 to 1, and int64 of shape ().

        1,437 are for training and 360 held out; the split never changes.
        """
        images, labels = _load()
        test = held_out(labels)
        chosen = {"train": ~test, "test": test}.get(split)
        if chosen is None:
            raise UsageError(f"digits has no split {split!r}; it has train and test")
        return torch.utils.data.TensorDataset(torch.from_numpy(images[chosen]), torch.from_numpy(labels[chosen]))

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        """Return the mean cross entropy, shape (), and the number of samples."""
        images, labels = batch
        return functional.cross_entropy(model(images), labels), float(len(labels))

    def optimizer(self, model: nn.Module) -> optim.Optimizer:
        """Return AdamW."""
        return optim.AdamW(model.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay)

    def metrics(self, model: nn.Module, batches: Iterable[Any]) -> dict[str, float]:
        """Return ``accuracy``, the share of digits classified correctly, and ``loss``, the mean cross entropy."""
        return accuracy_and_loss(model, batches)


def held_out(labels: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which samples are for testing: of each digit every fifth, in an order that is shuffled once for ever."""
    order = np.lexsort((raw_keys(len(labels), "digits split"), labels))
    test = np.zeros(len(labels), dtype=np.bool_)
    test[order[::TEST_EVERY]] = True
    return test


def _load() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Return images of shape (1797, 64), float32 from 0 to 1, and digits of shape (1797,), int64."""
    table = _table()
    return (table[:, :-1] / BRIGHTEST).astype(np.float32), table[:, -1].astype(np.int64)


def _table() -> npt.NDArray[np.float64]:
    """Read scikit-learn's file: 64 pixels and the digit a row."""
    package = importlib.util.find_spec("sklearn")
    if package is None:
        raise UsageError("the digits task needs scikit-learn: pip install 'driftline[train]'")
    # Importing scikit-learn for one file would take as long as importing torch, in every worker.
    for place in package.submodule_search_locations or ():
        file = Path(place, "datasets", "data", "digits.csv.gz")
        if file.is_file():
            with gzip.open(file, "rt", encoding="ascii") as rows:
                return np.loadtxt(rows, delimiter=",")
    return _table_by_sklearn()


def _table_by_sklearn() -> npt.NDArray[np.float64]:
    """Let scikit-learn read it, wherever a later release of it keeps the file."""
    from sklearn.datasets import load_digits  # noqa: PLC0415 - slow, see above

    source = load_digits()
    return np.column_stack([source.data, source.target]).astype(np.float64)
