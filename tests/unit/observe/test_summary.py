"""What `driftline train` says of a run that is over."""

import pytest

from driftline.broker.topics import Stream, topic_name
from driftline.errors import RunError
from driftline.ledger.entering.reading import read_ledger
from driftline.observe.run.summary import read_summary
from driftline.testing import run_in_process
from driftline.testing.memory import MemoryBroker
from tests.support.verifiable import compute, offer

RUN = "over"


@pytest.mark.parametrize("stream", [Stream.EVENTS, Stream.LEDGER])
def test_a_run_that_is_deleted_at_its_end_is_reported_as_ended_and_deleted(stream: Stream) -> None:
    """Another command deleted it: the summary says how the run ended, and why it knows no more."""
    broker = MemoryBroker()
    run_in_process(broker, offer(RUN, 1, 3), ["ada"], compute)
    state = read_ledger(broker, RUN)
    status, _ = read_summary(broker, RUN, state)
    assert status.version == 3
    broker.log.delete(topic_name(RUN, stream))
    with pytest.raises(RunError, match=r"run 'over' ended at version 3 \(reached version 3\).*topics are gone.*over\."):
        read_summary(broker, RUN, state)
