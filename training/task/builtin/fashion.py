"""Fashion-MNIST: 70,000 grey images of clothes, 28 x 28 pixels, in ten classes. Read from files that are there already.

Source: H. Xiao, K. Rasul and R. Vollgraf, Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning
Algorithms, 2017 (arXiv:1708.07747).
"""

from collections.abc import Iterable, Sequence
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
from driftline.training.task.builtin.idx import read_idx

SIDE = 28
PIXELS = SIDE * SIDE
CLASSES = 10
BRIGHTEST = 255.0
FOLDER = "/usr/share/datasets/fashion-mnist"
"""Where Debian's package puts it."""

PACKAGE = "dataset-fashion-mnist"
FILES = {
    "train": ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    "test": ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
}
"""Split → images and labels, named as their authors do."""


@dataclass(kw_only=True)
class Fashion(Task):
    """Tell ten kinds of clothes apart with one hidden layer.

    Attributes:
        batch_size: samples of one worker's gradient.
        folder: where the four files are.
        learning_rate: of SGD.
        momentum: of SGD.
        hidden: width of the hidden layer.
    """

    folder: str = FOLDER
    learning_rate: float = 0.05
    momentum: float = 0.9
    hidden: int = 128

    def prepare(self) -> None:
        """See that the files are there."""
        missing = [name for names in FILES.values() for name in names if not Path(self.folder, name).is_file()]
        if missing:
            raise UsageError(
                f"the fashion task finds no {', '.join(missing)} in {self.folder!r}; install the package {PACKAGE} "
                f"of Debian, or name the folder that holds Fashion-MNIST: --set folder=PATH"
            )

    def model(self) -> nn.Module:
        """Return a layer of ``hidden`` rectified units over the pixels, and a linear layer to 10 scores."""
        return nn.Sequential(nn.Linear(PIXELS, self.hidden), nn.ReLU(), nn.Linear(self.hidden, CLASSES))

    def data(self, split: str) -> Dataset:
        """Return (image, class) pairs: uint8 of shape (784,), and int64 of shape ().

        60,000 are for training and 10,000 held out, as the authors split them.
        """
        if split not in FILES:
            raise UsageError(f"fashion has no split {split!r}; it has {' and '.join(FILES)}")
        images, labels = (Path(self.folder, name) for name in FILES[split])
        return torch.utils.data.TensorDataset(*map(torch.from_numpy, _load(images, labels)))

    def collate(self, items: Sequence[Any]) -> tuple[Tensor, Tensor]:
        """Stack a batch of n: images as float32 of shape (n, 784) from 0 to 1, and classes, int64 of shape (n,)."""
        images, labels = zip(*items, strict=True)
        return torch.stack(images).float().div_(BRIGHTEST), torch.stack(labels)

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, float]:
        """Return the mean cross entropy, shape (), and the number of samples."""
        images, labels = batch
        return functional.cross_entropy(model(images), labels), float(len(labels))

    def optimizer(self, model: nn.Module) -> optim.Optimizer:
        """Return SGD with momentum."""
        return optim.SGD(model.parameters(), lr=self.learning_rate, momentum=self.momentum)

    def metrics(self, model: nn.Module, batches: Iterable[Any]) -> dict[str, float]:
        """Return ``accuracy``, the share of images classified correctly, and ``loss``, the mean cross entropy."""
        return accuracy_and_loss(model, batches)


def _load(images_file: Path, labels_file: Path) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return images of shape (n, 784), uint8, and classes of shape (n,), int64.

    Raises:
        UsageError: a file is not what it should be, or the two do not belong together.
    """
    images, labels = read_idx(images_file, 3), read_idx(labels_file, 1)
    if images.shape[1:] != (SIDE, SIDE):
        sides = " x ".join(map(str, images.shape[1:]))
        raise UsageError(f"{images_file} holds images of {sides} pixels, not of {SIDE} x {SIDE}")
    if len(images) != len(labels):
        raise UsageError(f"{images_file} holds {len(images):,} images and {labels_file} {len(labels):,} labels")
    if len(labels) and labels.max() >= CLASSES:
        raise UsageError(f"{labels_file} holds the label {labels.max()}; the classes are 0 to {CLASSES - 1}")
    return images.reshape(len(images), PIXELS).copy(), labels.astype(np.int64)
