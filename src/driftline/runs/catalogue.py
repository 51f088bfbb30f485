"""The runs that a Kafka holds: listing and deleting them."""

import dataclasses
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from driftline.broker.port import Broker
from driftline.broker.topics import check_run_name, parse_topic
from driftline.errors import ConfigError, DriftlineError, IntegrityError, RunError, TopicMissing
from driftline.ledger.entering.reading import no_such_run, read_ledger, run_names
from driftline.observe.run.status import run_state_word
from driftline.runs.commanding import stop_run
from driftline.runs.naming import existing_members

log = logging.getLogger(__name__)

STOP_S = 20.0
"""How long members may take to end before their topics are deleted all the same."""

_SAY_EVERY_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One run in a list. ``state`` is as in `RunStatus`, or ``unreadable`` with the ``problem``."""

    run: str
    uuid: str | None
    version: int
    state: str
    problem: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return dataclasses.asdict(self)


def list_entries(broker: Broker, say: Callable[[str], None]) -> list[Entry]:
    """Read the ledger of every run; one that cannot be read is listed as such."""
    names = run_names(broker)
    entries = []
    said_s = time.monotonic()
    for number, name in enumerate(names):
        if time.monotonic() - said_s > _SAY_EVERY_S:
            said_s = time.monotonic()
            say(f"reading run {number + 1} of {len(names)}: {name}")
        entries.append(_entry(broker, name, say))
    return entries


def _entry(broker: Broker, run: str, say: Callable[[str], None]) -> Entry:
    try:
        state = read_ledger(broker, run, say)
    except (IntegrityError, ConfigError, TopicMissing) as error:
        return Entry(run=run, uuid=None, version=0, state="unreadable", problem=str(error))
    uuid = None if state.start is None else state.start.run.hex()
    return Entry(run=run, uuid=uuid, version=state.version, state=run_state_word(state))


@dataclass(frozen=True, slots=True)
class Found:
    """A run as it lies there: in a few words, and the names of the members that are at work on it."""

    what: str
    at_work: tuple[str, ...] = ()


def look_at(broker: Broker, run: str) -> Found:
    """Return what would be deleted.

    Raises:
        UsageError: this cannot be the name of a run.
        RunRefused: there is no such run.
    """
    check_run_name(run)
    topics = _topics_of(broker, run)
    if not topics:
        raise no_such_run(run, run_names(broker))
    try:
        state = read_ledger(broker, run)
    except DriftlineError:
        return Found(f"{len(topics)} topics without a readable ledger")
    what = f"{run_state_word(state)}, at version {state.version}"
    if state.ended is not None:
        return Found(what)
    existing = existing_members(broker, run, state)
    return Found(what, tuple(sorted(existing.workers | existing.servers)))


def delete_run(broker: Broker, run: str, stopper: str | None = None) -> list[str]:
    """Delete all topics of a run, and return their names.

    Args:
        broker: where they are.
        run: the run's name.
        stopper: who asks the members to end first, so that they know why; None if there are none.
    """
    if stopper is not None:
        try:
            stop_run(broker, run, stopper, "the run is deleted", timeout_s=STOP_S)
        except RunError as error:
            log.warning("run %s is deleted although its members were not told: %s", run, error)
    topics = _topics_of(broker, run)
    admin = broker.admin()
    try:
        admin.delete(topics)
    finally:
        admin.close()
    return topics


def _topics_of(broker: Broker, run: str) -> list[str]:
    admin = broker.admin()
    try:
        return sorted(name for name in admin.topics() if (parse_topic(name) or ("",))[0] == run)
    finally:
        admin.close()
