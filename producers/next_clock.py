"""What a worker's next clock waits for, in words, and when no clock is left that could matter."""

from driftline.ledger.run_state import RunState


def waiting_for(state: RunState, run: str, name: str, pace: int, *, has_parameters: bool, is_member: bool) -> str:
    """Say what the next clock of a worker waits for, and whom.

    Args:
        state: the fold of the ledger.
        run: its name, for when nothing stands in the ledger.
        name: of the worker.
        pace: of the worker, in versions.
        has_parameters: whether it has the parameters of any version.
        is_member: whether the ledger has its `Join`.
    """
    if not state.has_begun:
        return f"the run to start: a server must be up to accept the proposal (driftline server {run})"
    if not has_parameters:
        return "parameters: a server must publish a version"
    if not is_member:
        if state.first_names:
            return "the coordinator to let it join"
        return f"the run's {state.config.workers} workers to be ready"
    others = (one for one in state.groups.values() if one.worker != name)
    slow = sorted(one.worker for one in others if one.settled_pace < pace)
    return f"version {state.version + 1}, for which {', '.join(slow) or 'the servers'} must deliver"


def is_last(state: RunState, pace: int) -> bool:
    """Whether another clock of a worker with this pace could not become part of any version."""
    by_pace = state.config.consistency.closes_by_clock and state.config.is_last(pace)
    return by_pace or state.is_finished
