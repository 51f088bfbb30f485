"""What members said lately, and when: the end of a run's events, read from outside."""

import time

from driftline.broker.port import Broker, Record, Start, Tail
from driftline.broker.topics import Stream, topic_name
from driftline.ledger.entering.reading import POLL_S, reading, until_end
from driftline.ledger.run_state import RunState
from driftline.observe.run.live import Live

RECENT_EVENTS = 4_000
"""How many events are read back: a few seconds of a fast run, all of a short one."""


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
            record = reader.poll(min(left_s, POLL_S))
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
