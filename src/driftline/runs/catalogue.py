"""Which runs a Kafka holds, where each stands, and who works on it."""

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from driftline.broker.port import Broker
from driftline.broker.reading import SAY_EVERY_S
from driftline.broker.topics import check_run_name, parse_topic
from driftline.errors import ConfigError, DriftlineError, IntegrityError, RunRefused, TopicMissing
from driftline.ledger.entering.reading import no_such_run, read_ledger, read_present, run_names
from driftline.ledger.run_state import RunState
from driftline.observe.run.recent_events import listen
from driftline.observe.run.status import run_state_word
from driftline.schemas.run.config import RunConfig

LISTEN_S = 1.5
"""Seconds to wait for heartbeats of a run's members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEntry:
    """One run in a list. ``state`` is as in `RunStatus`, or ``unreadable`` with the ``problem``."""

    run: str
    uuid: str | None
    version: int
    state: str
    problem: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return dataclasses.asdict(self)


def list_runs(broker: Broker, say: Callable[[str], None]) -> list[RunEntry]:
    """Read the ledger of every run; one that cannot be read is listed as ``unreadable``."""
    names = run_names(broker)
    entries = []
    said_s = time.monotonic()
    for number, name in enumerate(names):
        if time.monotonic() - said_s > SAY_EVERY_S:
            said_s = time.monotonic()
            say(f"reading run {number + 1} of {len(names)}: {name}")
        entries.append(_entry(broker, name, say))
    return entries


def _entry(broker: Broker, run: str, say: Callable[[str], None]) -> RunEntry:
    try:
        state = read_ledger(broker, run, say)
    except (IntegrityError, ConfigError, TopicMissing) as error:
        return RunEntry(run=run, uuid=None, version=0, state="unreadable", problem=str(error))
    uuid = state.start.run.hex() if state.has_begun else None
    return RunEntry(run=run, uuid=uuid, version=state.version, state=run_state_word(state))


@dataclass(frozen=True, slots=True)
class Members:
    """Members of a run that has not ended: names of those with a recent heartbeat, and the run's settings."""

    workers: frozenset[str] = frozenset()
    servers: frozenset[str] = frozenset()
    config: RunConfig | None = None


def find_members(broker: Broker, run: str) -> Members | None:
    """Return who works on a run, or None if there is no such run.

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
    return members_of(broker, run, state)


def members_of(broker: Broker, run: str, state: RunState) -> Members:
    """Return who works on a run whose ledger has been read: listens for at least `LISTEN_S` seconds."""
    if not state.has_begun:
        return Members()
    events = listen(broker, run, state.start.run, max(LISTEN_S, 3 * state.config.tick_interval_s))
    workers, servers = (
        frozenset(member.name for member in events.of_role(role) if not member.left) for role in ("worker", "server")
    )
    return Members(workers, servers, state.config)


@dataclass(frozen=True, slots=True)
class Deletion:
    """What the deletion of a run deletes and stops: the run in a few words, and the members that work on it."""

    what: str
    at_work: tuple[str, ...] = ()


def examine_deletion(broker: Broker, run: str) -> Deletion:
    """Return what would be deleted.

    Raises:
        UsageError: this is no legal run name.
        RunRefused: there is no such run.
    """
    check_run_name(run)
    topics = topics_of(broker, run)
    if not topics:
        raise no_such_run(run, run_names(broker))
    try:
        state = read_ledger(broker, run)
    except DriftlineError:
        return Deletion(f"{len(topics)} topics without a readable ledger")
    what = f"{run_state_word(state)}, at version {state.version}"
    if state.ended is not None:
        return Deletion(what)
    members = members_of(broker, run, state)
    return Deletion(what, tuple(sorted(members.workers | members.servers)))


def topics_of(broker: Broker, run: str) -> list[str]:
    """Return the names of a run's topics that exist."""
    admin = broker.admin()
    try:
        return sorted(name for name in admin.topics() if (parse_topic(name) or ("",))[0] == run)
    finally:
        admin.close()
