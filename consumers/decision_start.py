"""The first decision: which proposal becomes the run."""

from driftline.consumers.evidence import Evidence
from driftline.consumers.rules import check_rule
from driftline.consumers.run_state import RunState
from driftline.errors import ConfigError
from driftline.schemas.layout import layout_from_json
from driftline.schemas.records import Proposal, RunStart
from driftline.schemas.run_config_json import run_config_from_json


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


def proposal_problems(proposal: Proposal) -> list[str]:
    """Everything that keeps a proposal from becoming a run; empty when it can."""
    try:
        config = run_config_from_json(proposal.config)
        layout = layout_from_json(proposal.layout)
    except ConfigError as error:
        return list(error.problems)
    problems = list(check_rule(config.rule))
    if layout.partitions != config.partitions:
        problems.append(
            f"the layout is cut for {layout.partitions} partitions, the configuration says {config.partitions}"
        )
    if len(proposal.shards) != layout.shard_count:
        problems.append(f"{len(proposal.shards)} version-0 shards are proposed, the layout has {layout.shard_count}")
    groups = {segment.group for segment in layout.segments if segment.kind == "parameter"}
    if groups and max(groups) >= len(config.rule.groups):
        problems.append(f"the layout names parameter group {max(groups)}, the rule has {len(config.rule.groups)}")
    return problems
