"""Whether a run that has not begun is a new one: deltas or parameters without a start are what is left of another.

Such a run must not begin again at version 0: its ledger was lost, and the error says so.
"""

from contextlib import closing

from driftline.broker.port import Admin, Broker
from driftline.broker.topics import Stream, topic_name
from driftline.errors import RunRefused, TopicMissing
from driftline.ledger.entering.birth import read_birth
from driftline.ledger.known_ends import WAY_OUT


def check_ledger_kept(broker: Broker, run: str) -> None:
    """Return if a run has begun, or if nothing was written that only a run which has begun writes.

    Args:
        broker: where the run's topics are. One that was made a moment ago need not have reached every node yet.
        run: the run's name.

    Raises:
        RunRefused: its ledger was lost; names the topic that shows it.
        WaitTimeout: the ledger could not be read in time.
        BrokerUnreachable: Kafka is away.
    """
    with closing(broker.admin()) as admin:
        # In this order: what is written by a run that begins meanwhile is preceded by its start.
        written = _written(admin, run)
    if written and not read_birth(broker, run).has_begun:
        raise RunRefused(
            f"run {run!r} was begun before, for {written}, but its ledger {topic_name(run, Stream.LEDGER)} holds no "
            f"start of a run: the topic was deleted, made again or cut short; {WAY_OUT}. `driftline runs delete {run}` "
            f"deletes what is left"
        )


def _written(admin: Admin, run: str) -> str:
    """Say where there are records of a run that has begun; empty if nowhere. Proposals write neither of these."""
    for stream in (Stream.PARAMETERS, Stream.DELTAS):
        topic = topic_name(run, stream)
        try:
            found = admin.bounds(topic)
        except TopicMissing:  # this node does not know it yet: it was made a moment ago, so nothing is left in it
            continue
        for partition, bounds in sorted(found.items()):
            if bounds.end > 0:
                return f"{topic} partition {partition} was written up to offset {bounds.end}"
    return ""
