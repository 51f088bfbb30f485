"""What several decisions stand on."""

from driftline.consumers.coordinator.evidence import Evidence
from driftline.ledger.run_state import RunState
from driftline.schemas.model.layout import Layout
from driftline.schemas.records import StateDigest
from driftline.schemas.run.config import RunConfig


def new_states(state: RunState, evidence: Evidence) -> tuple[StateDigest, ...]:
    """Return the digests that became known and that the ledger does not hold yet."""
    return tuple(evidence.states[version] for version in sorted(evidence.states) if version not in state.states)


def layout_of(state: RunState) -> Layout:
    """Return the layout of a run that has started."""
    if state.layout is None:
        raise AssertionError("a decision on a run that has not started")
    return state.layout


def config_of(state: RunState) -> RunConfig:
    """Return the settings of a run that has started."""
    if state.config is None:  # decide() calls nothing here before RunStart
        raise AssertionError("a decision on a run that has not started")
    return state.config
