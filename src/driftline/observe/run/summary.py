"""Reads where a run stands: ledger, newest events and what Kafka keeps of the deltas."""

from driftline.broker.port import Broker
from driftline.broker.reading import until_end
from driftline.broker.topics import Stream, topic_name
from driftline.errors import RunError, TopicMissing
from driftline.ledger.run_state import RunState
from driftline.observe.run.disk_use import kept_deltas
from driftline.observe.run.recent_events import read_recent_events
from driftline.observe.run.status import RunStatus, build_status


def read_status(broker: Broker, run: str, state: RunState) -> RunStatus:
    """Return where a run stands.

    Args:
        broker: where the run's topics are.
        run: its name.
        state: fold of its ledger.

    Raises:
        TopicMissing: the run was deleted meanwhile.
        BrokerError: Kafka does not answer, or refuses to work with us.
    """
    return build_status(run, state, read_recent_events(broker, run, state), kept_deltas(broker, run, state))


def read_summary(broker: Broker, run: str, state: RunState) -> tuple[RunStatus, float]:
    """Return where a run that is over stands, and how many seconds it trained.

    Args:
        broker: where the run's topics are.
        run: its name.
        state: fold of its whole ledger.

    Raises:
        RunError: it was deleted as soon as it was over; says how it ended.
        BrokerError: Kafka does not answer, or refuses to work with us.
    """
    try:
        return read_status(broker, run, state), training_seconds(broker, run, state)
    except TopicMissing as error:
        if state.ended is None:
            raise
        why = state.ended.failure or state.ended.reason
        raise RunError(
            f"run {run!r} ended at version {state.ended.version} ({why}), and its topics are gone, so there is no "
            f"summary of it: {error}"
        ) from error


def training_seconds(broker: Broker, run: str, state: RunState) -> float:
    """Return the seconds between the first join and the newest ledger record, by the broker's clock."""
    if not state.joined:
        return 0.0
    first = min(group.offset for group in state.joined.values())
    began_ms, ended_ms = (_appended_ms(broker, run, offset) for offset in (first, state.next_offset - 1))
    return (ended_ms - began_ms) / 1000


def _appended_ms(broker: Broker, run: str, offset: int) -> int:
    records = until_end(broker, topic_name(run, Stream.LEDGER), 0, offset)
    try:
        return next(records).timestamp_ms
    finally:
        records.close()
