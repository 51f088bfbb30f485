"""The beginning of a ledger: whether its run has begun, and which one that is."""

from contextlib import closing

from driftline.broker.port import Broker, PositionLost
from driftline.broker.reading import until_end
from driftline.broker.topics import Stream, topic_name
from driftline.errors import BrokerError
from driftline.ledger.known_ends import WAY_OUT
from driftline.ledger.run_state import RunState


def read_birth(broker: Broker, run: str) -> RunState:
    """Fold a ledger as far as the start of its run; without one, to its end.

    Raises:
        TopicMissing: there is no ledger of that name.
        IntegrityError: it contradicts itself.
        WaitTimeout: Kafka stopped answering.
        BrokerUnreachable: Kafka is away.
        BrokerError: its beginning is gone; says what can be done.
    """
    state = RunState()
    try:
        with closing(until_end(broker, topic_name(run, Stream.LEDGER), 0, 0)) as records:
            for record in records:
                state.read(record.offset, record.value)
                if state.has_begun:
                    break
    except PositionLost as error:
        raise BrokerError(f"{error}. Run {run!r} cannot go on without it: {WAY_OUT}") from error
    return state
