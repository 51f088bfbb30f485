"""The optimizers of this process that are members of runs: for cells that are run again, and models given twice."""

import os
import weakref
from collections.abc import Iterable
from typing import Protocol

from torch import nn

from driftline.errors import UsageError


class Registered(Protocol):
    """What the registry knows of an optimizer."""

    place: str
    worker: str
    fingerprint: bytes

    def names_of(self, parameters: Iterable[nn.Parameter]) -> list[str]:
        """Return the names under which it trains any of these."""
        ...

    def give_way(self) -> None:
        """Close it: a newer one takes its place."""
        ...


_known: "weakref.WeakSet[Registered]" = weakref.WeakSet()
_pid = os.getpid()

MOST_SHOWN = 5
"""Parameters that a message names."""


def register(one: Registered) -> None:
    """Add an optimizer that has become a member."""
    _of_this_process().add(one)


def unregister(one: Registered) -> None:
    """Take one out that is closed. Idempotent."""
    _of_this_process().discard(one)


def make_room(place: str, worker: str, fingerprint: bytes, parameters: Iterable[nn.Parameter]) -> str:
    """Close the optimizer whose place a new one takes, as when a notebook's cell is run again.

    Args:
        place: of the run: Kafka's address and its name.
        worker: the new one's name.
        fingerprint: of the new one's layout.
        parameters: of the new one's model.

    Returns:
        What to tell the person at the keyboard; empty when there was none.

    Raises:
        UsageError: the older one trains another model in the same run, or this model in another run.
    """
    wanted = list(parameters)
    told = ""
    for old in list(_of_this_process()):
        if (old.place, old.worker) == (place, worker):
            if old.fingerprint != fingerprint:
                raise UsageError(
                    f"this process already trains another model in run {place} as worker {worker!r}: several "
                    f"optimizers need a run each, because a run is one model and one update rule"
                )
            old.give_way()
            told = f"an earlier Optimizer of worker {worker!r} in this process was closed; the new one takes its place"
    for old in list(_of_this_process()):
        shared = old.names_of(wanted)
        if shared:
            raise UsageError(
                f"parameters {', '.join(shared[:MOST_SHOWN])}{' …' if len(shared) > MOST_SHOWN else ''} "
                f"belong to another Optimizer of this process already (run {old.place}, worker {old.worker!r}); a run "
                f"holds whole models, so two optimizers need two models, or close() the other one first"
            )
    return told


def _of_this_process() -> "weakref.WeakSet[Registered]":
    """What was registered before a fork belongs to the parent."""
    global _known, _pid
    if _pid != os.getpid():
        _known, _pid = weakref.WeakSet(), os.getpid()
    return _known
