"""The beginning of a ledger: whether its run has begun, and which one that is."""

import time
from contextlib import closing

from driftline.broker.port import Broker, EndReached, PositionLost, Reader, Record
from driftline.broker.topics import Stream, topic_name
from driftline.errors import BrokerError, WaitTimeout
from driftline.ledger.known_ends import WAY_OUT
from driftline.ledger.run_state import RunState

READ_S = 60.0
"""How long reading the beginning of a ledger may take."""

_POLL_S = 0.2


def read_birth(broker: Broker, run: str) -> RunState:
    """Fold a ledger as far as the start of its run; without one, to its end.

    Raises:
        TopicMissing: there is no ledger of that name.
        IntegrityError: it contradicts itself.
        WaitTimeout: it could not be read in time.
        BrokerUnreachable: Kafka is away.
        BrokerError: its beginning is gone; says what can be done.
    """
    with closing(broker.reader()) as reader:
        try:
            reader.read(topic_name(run, Stream.LEDGER), 0, 0)
            return _read(reader, run)
        except PositionLost as error:
            raise BrokerError(f"{error}. Run {run!r} cannot go on without it: {WAY_OUT}") from error


def _read(reader: Reader, run: str) -> RunState:
    state, deadline_s = RunState(), time.monotonic() + READ_S
    while time.monotonic() < deadline_s:
        found = reader.poll(_POLL_S)
        if isinstance(found, Record):
            state.read(found.offset, found.value)
        if isinstance(found, EndReached) or state.has_begun:
            return state
    raise WaitTimeout(f"the ledger of run {run!r} could not be read within {READ_S:.0f} s; is its Kafka still there?")
