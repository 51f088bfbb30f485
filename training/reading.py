"""Looking at a run from outside: its ledger to the end, and the end of its events. Joins nothing, writes nothing."""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

from driftline.broker.port import Broker, EndReached, Position, Reader, Record, Start, Tail
from driftline.broker.topics import Stream, check_run_name, parse_topic, topic_name
from driftline.consumers.birth import read_birth
from driftline.consumers.entering import enter_ledger
from driftline.consumers.entry import Search
from driftline.consumers.run_state import RunState
from driftline.errors import RunRefused, WaitTimeout
from driftline.schemas.run_config import RunConfig
from driftline.training.live import Live

READ_TIMEOUT_S = 60.0
"""How long reading a stream may take while nothing of it arrives."""

RECENT_EVENTS = 4_000
"""How many events are read back: a few seconds of a fast run, all of a short one."""

_POLL_S = 0.2
SAY_EVERY_S = 2.0


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
    hint = f"did you mean {' or '.join(near)}?" if near else f"the runs there are: {', '.join(names[:20]) or 'none'}"
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
    for record in until_end(broker, topic_name(run, Stream.LEDGER), 0, state.next_offset, None):
        state.read(record.offset, record.value)
    return state


def read_config(broker: Broker, run: str) -> RunConfig | None:
    """Return the settings of a run, None if there is no such run or no server has accepted it yet.

    Raises:
        IntegrityError: the ledger contradicts itself.
        WaitTimeout: Kafka stopped answering.
    """
    return read_birth(broker, run).config if run in run_names(broker) else None


def read_recent_events(broker: Broker, run: str, state: RunState) -> Live:
    """Fold the last events of a run whose ledger has been read."""
    live = Live(None if state.start is None else state.start.run)
    for record in until_end(broker, topic_name(run, Stream.EVENTS), 0, Tail(RECENT_EVENTS), None):
        live.read(record.value, record.timestamp_ms)
    return live


def listen(broker: Broker, run: str, run_uuid: bytes, seconds: float) -> Live:
    """Fold what is said in a run from now on, for so long."""
    live = Live(run_uuid)
    with reading(broker) as reader:
        reader.read(topic_name(run, Stream.EVENTS), 0, Start.END)
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0:
            record = reader.poll(min(left_s, _POLL_S))
            if isinstance(record, Record):
                live.read(record.value, record.timestamp_ms)
    return live


def training_seconds(broker: Broker, run: str, state: RunState) -> float:
    """Return the time between the first workers' joining and the newest ledger record, by the broker's clock."""
    if not state.joined:
        return 0.0
    first = min(group.offset for group in state.joined.values())
    began_ms, ended_ms = (_appended_ms(broker, run, offset) for offset in (first, state.next_offset - 1))
    return (ended_ms - began_ms) / 1000


def _appended_ms(broker: Broker, run: str, offset: int) -> int:
    records = until_end(broker, topic_name(run, Stream.LEDGER), 0, offset, None)
    try:
        return next(records).timestamp_ms
    finally:
        records.close()


@contextmanager
def reading(broker: Broker) -> Iterator[Reader]:
    """Give a reader, and release it."""
    reader = broker.reader()
    try:
        yield reader
    finally:
        reader.close()


def until_end(
    broker: Broker, topic: str, partition: int, position: Position, say: Callable[[str], None] | None
) -> Generator[Record]:
    """Yield the records of a partition from a position to its present end.

    Raises:
        TopicMissing: no such topic or partition.
        PositionLost: the partition does not hold the position.
        WaitTimeout: nothing arrived for `READ_TIMEOUT_S`.
    """
    with reading(broker) as reader:
        reader.read(topic, partition, position)
        moved_s = said_s = time.monotonic()
        while True:
            found = reader.poll(_POLL_S)
            now_s = time.monotonic()
            if isinstance(found, EndReached):
                return
            if found is not None:
                moved_s = now_s
                yield found
            elif now_s - moved_s > READ_TIMEOUT_S:
                raise WaitTimeout(f"{topic}: nothing arrived for {READ_TIMEOUT_S:.0f} s; is its Kafka still there?")
            if say is not None and now_s - said_s > SAY_EVERY_S:
                said_s = now_s
                say(f"reading {topic}: {'' if found is None else f'at offset {found.offset}'}")
