"""What is read of a run that is over, for the summary of the command that trained it."""

from driftline.broker.port import Broker
from driftline.errors import RunError, TopicMissing
from driftline.ledger.run_state import RunState
from driftline.observe.run.disk_use import kept_deltas
from driftline.observe.run.recent import read_recent_events, training_seconds
from driftline.observe.run.status import RunStatus, build_status


def sum_up(broker: Broker, run: str, state: RunState) -> tuple[RunStatus, float]:
    """Return where a run stands, and how many seconds it trained.

    Args:
        broker: where the run's topics are.
        run: its name.
        state: the fold of its ledger to its end.

    Raises:
        RunError: it was deleted as soon as it was over, so there is nothing to read; says how it ended.
        BrokerError: Kafka refuses to work with us.
    """
    try:
        live, seconds = read_recent_events(broker, run, state), training_seconds(broker, run, state)
        return build_status(run, state, live, kept_deltas(broker, run, state.layout)), seconds
    except TopicMissing as error:
        if state.ended is None:
            raise
        why = state.ended.failure or state.ended.reason
        raise RunError(
            f"run {run!r} ended at version {state.ended.version} ({why}), and its topics are gone, so there is no "
            f"summary of it: {error}"
        ) from error
