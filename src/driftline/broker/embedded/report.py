"""Telling somebody what takes time."""

from collections.abc import Callable
from typing import TypeAlias

Report: TypeAlias = Callable[[str], None]
"""Told, in one line, what is being waited for; at most a few times a second."""


def quiet(_line: str) -> None:
    """Report nothing."""
