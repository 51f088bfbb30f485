"""Train PyTorch models through Apache Kafka: the log is the training run, and can be proven."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from driftline.api import Optimizer, follow, load, train, verify
    from driftline.errors import DriftlineError, RunEnded
    from driftline.observe.versions import Version
    from driftline.training.optimizer.sampler import Sampler
    from driftline.training.task import Task

__all__ = [
    "DriftlineError",
    "Optimizer",
    "RunEnded",
    "Sampler",
    "Task",
    "Version",
    "__version__",
    "follow",
    "load",
    "train",
    "verify",
]
__version__ = "0.1.0"

_HOMES = {
    "DriftlineError": "driftline.errors",
    "Optimizer": "driftline.api",
    "RunEnded": "driftline.errors",
    "Sampler": "driftline.training.optimizer.sampler",
    "Task": "driftline.training.task",
    "Version": "driftline.observe.versions",
    "follow": "driftline.api",
    "load": "driftline.api",
    "train": "driftline.api",
    "verify": "driftline.api",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is asked for: servers and ``driftline --help`` have no use for torch."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
