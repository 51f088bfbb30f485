"""Training that runs through Kafka and can be trusted: the log is the training run."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from driftline.training.task import Task

__all__ = ["Task", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Give `Task` to those who write one; ``driftline --help`` has no use for it."""
    if name == "Task":
        return import_module("driftline.training.task").Task
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
