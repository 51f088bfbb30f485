"""Records that contradict themselves or the ledger before them, and proposals that cannot become a run.

No coordinator writes such a record, so every reader of the ledger ends there. Each function returns what is wrong, in
words, or nothing.
"""

import math

from driftline.errors import ConfigError
from driftline.ledger.policy import mean_rates, rates_problem, weight_problem
from driftline.rules import check_rule, tensor_names
from driftline.schemas.model.layout import Layout, layout_from_json
from driftline.schemas.records import Checkpoint, Proposal, RunStart, Use, Version
from driftline.schemas.run.config import RunConfig
from driftline.schemas.run.config_json import run_config_from_json


def proposal_problems(proposal: Proposal) -> list[str]:
    """Return everything that keeps a proposal from becoming a run; empty when it can."""
    try:
        config = run_config_from_json(proposal.config)
        layout = layout_from_json(proposal.layout)
    except ConfigError as error:
        return list(error.problems)
    return _misfits(config, layout, len(proposal.shards))


def in_start(record: RunStart, config: RunConfig, layout: Layout) -> str:
    """Hold a start against its own settings and layout."""
    problems = _misfits(config, layout, len(record.shards))
    if record.partitions != config.partitions:
        problems.append(f"{record.partitions} partitions, the configuration says {config.partitions}")
    if record.layout_fingerprint != layout.fingerprint():
        problems.append("its layout is not what the fingerprint says")
    return problems[0] if problems else ""


def _misfits(config: RunConfig, layout: Layout, shards: int) -> list[str]:
    """Return what in settings, layout and ``shards`` of version 0 does not fit together."""
    problems = list(check_rule(config.rule))
    if layout.partitions != config.partitions:
        problems.append(
            f"the layout is cut for {layout.partitions} partitions, the configuration says {config.partitions}"
        )
    if shards != layout.shard_count:
        problems.append(f"{shards} shards of version 0, the layout has {layout.shard_count}")
    highest = max((segment.group for segment in layout.segments if segment.kind == "parameter"), default=-1)
    if highest >= len(config.rule.groups):
        problems.append(f"the layout names parameter group {highest}, the rule has {len(config.rule.groups)}")
    return problems


def in_version(record: Version, config: RunConfig, layout: Layout) -> str:
    """Hold a version's numbers against the settings of the run."""
    if len(record.learning_rates) != len(config.rule.groups):
        return f"{len(record.learning_rates)} learning rates for {len(config.rule.groups)} parameter groups"
    if not all(math.isfinite(rate) for rate in record.learning_rates):
        return f"learning rates {record.learning_rates}"
    if not 0.0 < record.rho <= 1.0:
        return f"rho is {record.rho!r}, not above 0 and at most 1"
    if len(record.positions) != config.partitions:
        return f"{len(record.positions)} positions for {config.partitions} partitions"
    problems = (problem for use in record.uses if (problem := _in_use(use, record.version)))
    return next(problems, "") or _in_rates(record, config) or _in_buffers(record, layout)


def _in_rates(record: Version, config: RunConfig) -> str:
    """Compute the rates again that contributions asked for; those of a run's own schedule need a cosine, and are not.

    That is a matter of exactly rounded sums: see `mean_rates`.
    """
    groups = len(config.rule.groups)
    for use in record.uses:
        wanted = groups if config.schedule.is_scripts and use.kind == "delta" else 0
        problem = rates_problem(use.learning_rates, wanted)
        if problem:
            return f"of a contribution: {problem}"
    if not config.schedule.is_scripts:
        return ""
    mean = mean_rates(record.uses, groups)
    return (
        ""
        if mean == record.learning_rates
        else f"learning rates {record.learning_rates}, and the mean of its contributions is {mean}"
    )


def in_checkpoint(record: Checkpoint, config: RunConfig, layout: Layout) -> str:
    """Hold a checkpoint against the settings and the layout of the run."""
    if not config.is_snapshot_point(record.version):
        return f"version {record.version} is no snapshot point"
    if len(record.floors) != config.partitions or min(record.floors) < 0:
        return f"floors {record.floors} for {config.partitions} partitions"
    if len(record.state) > 1:
        return f"{len(record.state)} states"
    names = tensor_names(config.rule)
    wanted = [(shard, name) for shard in range(layout.shard_count) for name in names]
    named = [(place.shard, place.tensor) for place in record.places]
    return "" if named == wanted else f"{len(named)} tensors, not the {len(wanted)} of the model in their order"


def _in_buffers(record: Version, layout: Layout) -> str:
    if record.buffers_of == -1:
        return ""
    if not layout.has_buffers:
        return f"buffers of contribution {record.buffers_of}, and the model has none"
    if not 0 <= record.buffers_of < len(record.uses):
        return f"buffers of contribution {record.buffers_of} of {len(record.uses)}"
    use = record.uses[record.buffers_of]
    return "" if use.kind == "delta" else f"buffers of contribution {record.buffers_of}, which has no delta"


def _in_use(use: Use, version: int) -> str:
    base = version - 1 - use.staleness
    if not 0 <= use.base_version == base < version:
        return f"a contribution to version {use.base_version} that is {use.staleness} versions late"
    return weight_problem(use.weight)
