"""What a proposal must be before it can become a run."""

from driftline.errors import ConfigError
from driftline.rules import check_rule
from driftline.schemas.model.layout import layout_from_json
from driftline.schemas.records import Proposal
from driftline.schemas.run.config_json import run_config_from_json


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
