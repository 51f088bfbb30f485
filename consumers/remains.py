"""Whether a run that has not begun is a new one: deltas or parameters without a start are what is left of another.

Nobody begins such a run again at version 0, as if nothing had been: its ledger was lost, and that must be said.
"""

import time
from contextlib import closing

from driftline.broker.port import Admin, Broker, EndReached, Record
from driftline.broker.topics import Stream, topic_name
from driftline.consumers.known_ends import WAY_OUT
from driftline.consumers.run_state import RunState
from driftline.errors import RunRefused, WaitTimeout

READ_S = 60.0
"""How long reading the beginning of a ledger may take."""

_POLL_S = 0.2


def check_ledger_kept(broker: Broker, run: str) -> None:
    """Return if a run has begun, or if nothing was written that only a run which has begun writes.

    Args:
        broker: where the run's topics are; all of them exist.
        run: the run's name.

    Raises:
        RunRefused: its ledger was lost; names the topic that shows it.
        WaitTimeout: the ledger could not be read in time.
        BrokerUnreachable: Kafka is away.
    """
    with closing(broker.admin()) as admin:
        # In this order: what is written by a run that begins meanwhile is preceded by its start.
        written = _written(admin, run)
    if written and not _has_begun(broker, run):
        raise RunRefused(
            f"run {run!r} was begun before, for {written}, but its ledger {topic_name(run, Stream.LEDGER)} holds no "
            f"start of a run: the topic was deleted, made anew or cut short; {WAY_OUT}. `driftline runs delete {run}` "
            f"deletes what is left"
        )


def _written(admin: Admin, run: str) -> str:
    """Say where there are records of a run that has begun; empty if nowhere. Proposals write neither of these."""
    for stream in (Stream.PARAMETERS, Stream.DELTAS):
        topic = topic_name(run, stream)
        for partition, bounds in sorted(admin.bounds(topic).items()):
            if bounds.end > 0:
                return f"{topic} partition {partition} was written up to offset {bounds.end}"
    return ""


def _has_begun(broker: Broker, run: str) -> bool:
    state = RunState()
    with closing(broker.reader()) as reader:
        reader.read(topic_name(run, Stream.LEDGER), 0, 0)
        deadline_s = time.monotonic() + READ_S
        while time.monotonic() < deadline_s:
            found = reader.poll(_POLL_S)
            if isinstance(found, EndReached):
                return False
            if isinstance(found, Record):
                state.read(found.offset, found.value)
                if state.start is not None:
                    return True
    raise WaitTimeout(f"the ledger of run {run!r} could not be read within {READ_S:.0f} s; is its Kafka still there?")
