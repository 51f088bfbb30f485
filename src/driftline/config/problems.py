"""Collecting what is wrong, so that a person sees all of it at once."""

import difflib
from collections.abc import Callable, Collection
from typing import TypeVar

from driftline.errors import ConfigError, UsageError

T = TypeVar("T")


class Problems:
    """Everything found wrong so far; `check` raises it as one error.

    Attributes:
        found: one line a problem.
    """

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, problem: str) -> None:
        """Note one problem; once is enough."""
        if problem not in self.found:
            self.found.append(problem)

    def attempt(self, make: Callable[[], T], instead: T) -> T:
        """Return what ``make`` returns; if it refuses, note its problems and return ``instead``."""
        try:
            return make()
        except ConfigError as error:
            self.found += error.problems
        except UsageError as error:
            self.add(str(error))
        return instead

    def check(self) -> None:
        """Return if nothing was wrong.

        Raises:
            ConfigError: holds every problem.
        """
        if self.found:
            raise ConfigError(self.found)


def hint(word: str, known: Collection[str]) -> str:
    """Return the known word that is nearest, or all of them."""
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
