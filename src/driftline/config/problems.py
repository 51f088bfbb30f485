"""Collecting what is wrong, so that a person sees all of it at once."""

import difflib
import re
from collections.abc import Callable
from typing import TypeVar

from driftline.errors import ConfigError, UsageError

T = TypeVar("T")

_WHOLE = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_MAX_DIGITS = 40
"""More than that is no number that anybody means, and Python itself refuses to read very long ones."""


class Problems:
    """Everything found wrong so far; `check` raises it as one error.

    Attributes:
        found: one line a problem.
        places: how a problem may begin (``--workers``) → where that was said (``run.toml:3: run.workers``), if it was
            not said on the command line.
    """

    def __init__(self) -> None:
        self.found: list[str] = []
        self.places: dict[str, str] = {}

    def add(self, problem: str) -> None:
        """Note one problem."""
        fitting = [one for one in self.places if re.match(rf"{re.escape(one)}(?![\w.-])", problem)]
        subject = max(fitting, key=len, default="")
        self.found.append(f"{self.places.get(subject, '')}{problem.removeprefix(subject)}")

    def attempt(self, make: Callable[[], T], instead: T) -> T:
        """Return what ``make`` returns; if it refuses, note its problems and return ``instead``."""
        try:
            return make()
        except ConfigError as error:
            for problem in error.problems:
                self.add(problem)
        except UsageError as error:
            self.add(str(error))
        return instead

    def whole(self, option: str, text: str, low: int, high: int, *, zero: str = "") -> int:
        """Read a whole number from ``low`` to ``high``; ``zero`` says what is wrong with 0, if it is."""
        number = int(text) if _WHOLE.fullmatch(text) and len(text) <= _MAX_DIGITS else None
        if number is not None and low <= number <= high:
            return number
        said = f"{zero}: give" if number == 0 and zero else f"{_short(text)!r} is not"
        self.add(f"{option}: {said} a whole number from {low} to {high}")
        return low

    def real(self, option: str, text: str, low: float, high: float) -> float:
        """Read a number from ``low`` to ``high``."""
        number = float(text) if _REAL.fullmatch(text) and len(text) <= _MAX_DIGITS else None
        if number is not None and low <= number <= high:
            return number
        self.add(f"{option}: {_short(text)!r} is not a number from {low:g} to {high:g}")
        return low

    def known(self, option: str, word: str, known: tuple[str, ...]) -> str:
        """Read a word that is one of ``known``."""
        if word in known:
            return word
        near = difflib.get_close_matches(word, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        self.add(f"{option}: {word!r} is not known; {hint}")
        return known[0]

    def check(self) -> None:
        """Return if nothing was wrong.

        Raises:
            ConfigError: holds every problem.
        """
        if self.found:
            raise ConfigError(self.found)


def _short(text: str) -> str:
    return text if len(text) <= _MAX_DIGITS else f"{text[:_MAX_DIGITS]}…"
