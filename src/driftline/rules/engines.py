"""What computes a rule's steps: numpy, or loops compiled by numba. The bits are the same, the time is not.

The switch is one word, an argument or else ``DRIFTLINE_RULES``: ``numpy`` (the default) or ``numba``. numba is not used
just because it is there: importing and compiling take seconds at every start, which a small model never wins back, and
a server's speed should not depend on what else is installed.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from driftline.errors import ConfigError
from driftline.rules.base import Kernel

SWITCH = "DRIFTLINE_RULES"


@dataclass(frozen=True, slots=True)
class Engine:
    """A way to compute.

    Attributes:
        name: the word that chooses it.
        version: of the library that computes.
        bind: turns the step of a rule into one that computes this way.
    """

    name: str
    version: str
    bind: Callable[[Kernel], Kernel]

    def __str__(self) -> str:
        """Say which it is, in words for a log line."""
        return f"update rules computed by {self.name} {self.version}"


NUMPY = Engine("numpy", np.__version__, lambda kernel: kernel)


def choose_engine(name: str | None = None) -> Engine:
    """Return the engine of this name, ready to compute. The first time, numba compiles and is checked: seconds.

    Args:
        name: ``numpy`` or ``numba``. None: what the environment variable ``DRIFTLINE_RULES`` says, or else numpy.

    Raises:
        ConfigError: there is no such engine, numba is not installed, or what it compiled gives other bits here.
    """
    chosen, source = (name, "rules engine") if name is not None else (os.environ.get(SWITCH) or NUMPY.name, SWITCH)
    if chosen == NUMPY.name:
        return NUMPY
    if chosen != "numba":
        raise ConfigError([f"{source}: {chosen!r} is neither numpy nor numba"])
    try:
        from driftline.rules.compiled import compile_loops  # noqa: PLC0415 - only for who asks for it

        version, bind, problems = compile_loops()
    except ImportError as error:
        problem = f"{source}: numba cannot be imported ({error}); pip install 'driftline[fast]', or choose numpy"
        raise ConfigError([problem]) from error
    if problems:
        raise ConfigError([f"{source}: numba {version} computes other bits on this machine; choose numpy", *problems])
    return Engine("numba", version, bind)
