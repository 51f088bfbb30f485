"""Which run a command works for, and what its processes are called."""

from collections.abc import Collection
from dataclasses import dataclass

from driftline.broker.port import Broker
from driftline.errors import RunRefused
from driftline.ledger.entering.reading import read_present, run_names
from driftline.ledger.run_state import RunState
from driftline.observe.run.recent import listen
from driftline.schemas.run.config import RunConfig

LISTEN_S = 1.5
"""How long to listen for the heartbeats of a run's members."""


@dataclass(frozen=True, slots=True)
class Existing:
    """A run that goes on, the names of its members that seem to live, and its settings once it has begun."""

    workers: frozenset[str] = frozenset()
    servers: frozenset[str] = frozenset()
    config: RunConfig | None = None


def default_run_name(spec: str) -> str:
    """Return a legal name for runs of a task: that of a built-in task, or of the attribute."""
    name = spec.rpartition(":")[2].rpartition(".")[2].lower()
    legal = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name).strip("-")
    return legal[:64] or "run"


def unused_run_name(broker: Broker, base: str, reserved: Collection[str] = ()) -> str:
    """Return ``base``, or ``base-2``, ``base-3`` …: the first that no run has."""
    taken = {*run_names(broker), *reserved}
    number, name = 1, base
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    return name


def existing_run(broker: Broker, run: str) -> Existing | None:
    """Return what goes on in a run, or None if there is no such run.

    Raises:
        RunRefused: it has ended.
    """
    if run not in run_names(broker):
        return None
    state = read_present(broker, run)
    if state.ended is not None:
        raise RunRefused(
            f"run {run!r} ended at version {state.ended.version} ({state.ended.failure or state.ended.reason}); "
            f"choose another --run, or delete it: driftline runs delete {run}"
        )
    return existing_members(broker, run, state)


def existing_members(broker: Broker, run: str, state: RunState) -> Existing:
    """Return who can be heard in a run whose ledger has been read; it takes a moment, and needs no clock."""
    if state.start is None or state.config is None:
        return Existing()
    live = listen(broker, run, state.start.run, max(LISTEN_S, 3 * state.config.tick_interval_s))
    workers, servers = (
        frozenset(member.name for member in live.of_role(role) if not member.left) for role in ("worker", "server")
    )
    return Existing(workers, servers, state.config)


def unused_names(role: str, count: int, taken: Collection[str]) -> tuple[str, ...]:
    """Return ``role-1``, ``role-2`` … without those taken."""
    names: list[str] = []
    number = 0
    while len(names) < count:
        number += 1
        if f"{role}-{number}" not in taken:
            names.append(f"{role}-{number}")
    return tuple(names)
