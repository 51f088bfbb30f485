"""What several decisions stand on."""

from driftline.consumers.coordinator.evidence import Evidence
from driftline.ledger.run_state import RunState
from driftline.schemas.records import StateDigest


def new_states(state: RunState, evidence: Evidence) -> tuple[StateDigest, ...]:
    """Return the digests that became known and that the ledger does not hold yet."""
    return tuple(evidence.states[version] for version in sorted(evidence.states) if version not in state.states)
