"""Functions that are imported when they are called, so that ``--help`` and refusals need no torch."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazily(path: str) -> Callable[..., Any]:
    """Return a function that imports ``module:name`` and calls it."""
    module, _, name = path.partition(":")

    def call(*arguments: Any, **named: Any) -> Any:
        return getattr(import_module(module), name)(*arguments, **named)

    return call
