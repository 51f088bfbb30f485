"""Looking at a run from outside: its ledger to the end, and the end of its events. Joins nothing, writes nothing."""

from collections.abc import Callable, Sequence
from difflib import get_close_matches

from driftline.broker.port import Broker
from driftline.broker.reading import until_end
from driftline.broker.topics import Stream, check_run_name, parse_topic, topic_name
from driftline.errors import RunRefused
from driftline.ledger.entering.birth import read_birth
from driftline.ledger.entering.checkpoint import enter_ledger
from driftline.ledger.entering.entry import Search
from driftline.ledger.run_state import RunState
from driftline.schemas.run.config import RunConfig

SHOWN = 20
"""Names of runs in a message."""


def run_names(broker: Broker) -> list[str]:
    """Return the names of all runs that have a ledger, in order."""
    admin = broker.admin()
    try:
        parsed = [parse_topic(topic) for topic in admin.topics()]
    finally:
        admin.close()
    return sorted(found[0] for found in parsed if found is not None and found[1] is Stream.LEDGER)


def check_run_exists(broker: Broker, run: str) -> None:
    """Return if there is a run of this name.

    Raises:
        UsageError: it cannot be the name of a run.
        RunRefused: there is none; names those that are near, or all.
    """
    check_run_name(run)
    names = run_names(broker)
    if run not in names:
        check_visible(broker, run)
        raise no_such_run(run, names)


def check_visible(broker: Broker, run: str) -> None:
    """Return if this client may know whether a run exists.

    Raises:
        BrokerError: it may not; says which right is missing.
    """
    admin = broker.admin()
    try:
        admin.topics([topic_name(run, Stream.LEDGER)])
    finally:
        admin.close()


def no_such_run(run: str, names: Sequence[str]) -> RunRefused:
    """Return the error for a run that is not among ``names``."""
    near = get_close_matches(run, names, n=3)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    there_are = f"the runs there are: {', '.join(names[:SHOWN]) or 'none'}{more}"
    hint = f"did you mean {' or '.join(near)}?" if near else there_are
    return RunRefused(f"there is no run {run!r}; {hint}")


def read_ledger(broker: Broker, run: str, say: Callable[[str], None] | None = None) -> RunState:
    """Fold a run's ledger up to its present end.

    Raises:
        TopicMissing: there is no such run.
        IntegrityError: the ledger contradicts itself.
        WaitTimeout: Kafka stopped answering.
    """
    state = RunState()
    for record in until_end(broker, topic_name(run, Stream.LEDGER), 0, 0, say):
        state.read(record.offset, record.value)
    return state


def read_present(broker: Broker, run: str, search: Search | None = None) -> RunState:
    """Fold a run's ledger up to its present end from its last checkpoint on: what is so, not all that has been.

    Args:
        broker: where the run's topics are.
        run: its name.
        search: for where to begin, if that is known.

    Raises:
        TopicMissing: there is no such run.
        IntegrityError: the ledger contradicts itself.
        WaitTimeout: Kafka stopped answering.
    """
    state = (enter_ledger(broker, run) if search is None else search).state()
    for record in until_end(broker, topic_name(run, Stream.LEDGER), 0, state.next_offset):
        state.read(record.offset, record.value)
    return state


def read_config(broker: Broker, run: str) -> RunConfig | None:
    """Return the settings of a run, None if there is no such run or no server has accepted it yet.

    Raises:
        IntegrityError: the ledger contradicts itself.
        WaitTimeout: Kafka stopped answering.
    """
    if run not in run_names(broker):
        return None
    state = read_birth(broker, run)
    return state.config if state.has_begun else None
