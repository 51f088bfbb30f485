"""The first decision: which proposal becomes the run."""

from driftline.consumers.coordinator.evidence import Evidence
from driftline.ledger.contradictions import proposal_problems
from driftline.ledger.run_state import RunState
from driftline.schemas.model.layout import layout_from_json
from driftline.schemas.records import RunStart
from driftline.schemas.run.config_json import run_config_from_json


def run_start(state: RunState, evidence: Evidence) -> RunStart | None:
    """Make the first complete proposal the run."""
    for proposal in evidence.proposals.values():
        if evidence.is_complete(proposal) and not proposal_problems(proposal):
            config = run_config_from_json(proposal.config)
            return RunStart(
                term=state.chain.term,
                parent=state.chain.head,
                run=proposal.run,
                name=config.name,
                config=proposal.config,
                layout=proposal.layout,
                layout_fingerprint=layout_from_json(proposal.layout).fingerprint(),
                partitions=config.partitions,
                shards=proposal.shards,
                proposer=proposal.worker,
            )
    return None
