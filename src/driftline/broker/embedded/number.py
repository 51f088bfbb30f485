"""How many nodes a broker may have, and that it keeps the number it was made with."""

from collections.abc import Sequence
from pathlib import Path

from driftline.errors import UsageError

MAX_NODES = 7


def check_number(nodes: int) -> int:
    """Return ``nodes`` if a broker can have so many.

    Raises:
        UsageError: names the number and those that are possible.
    """
    if nodes % 2 == 1 and 1 <= nodes <= MAX_NODES:
        return nodes
    odd = ", ".join(str(number) for number in range(1, MAX_NODES, 2))
    why = ": with an even number no more of them may fail than with one fewer" if nodes > 0 and nodes % 2 == 0 else ""
    raise UsageError(f"a broker of {nodes} nodes cannot be made{why}; possible are {odd} and {MAX_NODES}")


def refuse_other_number(home: Path, existing: Sequence[int], wanted: int | None) -> None:
    """Return if the broker of ``home`` has the number of nodes that is wanted, or is still to be made.

    Raises:
        UsageError: names both numbers and the ways out.
    """
    if wanted is None or not existing or len(existing) == wanted:
        return
    raise UsageError(
        f"the broker of {home} was made with {_nodes(len(existing))} and keeps that number, so it cannot be started "
        f"with {wanted}: leave the number out, or choose another folder with --home"
    )


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
