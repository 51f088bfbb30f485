"""What classifiers measure alike."""

from collections.abc import Iterable
from typing import Any

from torch import nn
from torch.nn import functional


def accuracy_and_loss(model: nn.Module, batches: Iterable[Any]) -> dict[str, float]:
    """Return ``accuracy``, the share of samples classified correctly, and ``loss``, the mean cross entropy.

    Args:
        model: gives scores of shape (n, classes).
        batches: pairs of what the model takes and the right classes, int64 of shape (n,); at least one sample in all.
    """
    right = samples = 0
    loss = 0.0
    for inputs, labels in batches:
        scores = model(inputs)
        right += int((scores.argmax(dim=1) == labels).sum())
        loss += float(functional.cross_entropy(scores, labels, reduction="sum"))
        samples += len(labels)
    return {"accuracy": right / samples, "loss": loss / samples}
