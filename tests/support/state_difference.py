"""Where two folds of one ledger differ: one from its beginning, say, and one from a checkpoint."""

import math
from collections.abc import Mapping
from dataclasses import fields

from driftline.ledger.run_state import RunState

PLAIN = (
    "next_offset",
    "start",
    "start_offset",
    "start_head",
    "config",
    "layout",
    "version",
    "heads",
    "groups",
    "joined",
    "first_names",
    "versions",
    "used_at",
    "deltas_end",
    "last_publish",
    "publish_points",
    "states",
    "checkpoint",
    "dumps",
    "ended",
)
"""Attributes that are compared as they are."""


def state_difference(one: RunState, other: RunState) -> str:
    """Name what differs between two folds that stand at the same place and have forgotten the same; or nothing.

    A fold that began at a checkpoint does not know how many records before it were void, why groups were removed, nor
    which checkpoint there was before; everything else it knows.
    """
    ours, theirs = _contents(one), _contents(other)
    return "; ".join(f"{name}: {ours[name]!r} and {theirs[name]!r}" for name in ours if ours[name] != theirs[name])


def _contents(state: RunState) -> Mapping[str, object]:
    totals = {one.name: getattr(state.totals, one.name) for one in fields(state.totals) if one.name != "undecodable"}
    return {
        **{name: getattr(state, name) for name in PLAIN},
        "chain": (state.chain.head, state.chain.term, state.chain.valid),
        "order of groups": list(state.groups),
        "leases": state.leases.dump() if state.has_begun else (),
        "removed": set(state.removed),
        "loss": None if math.isnan(state.loss) else state.loss,
        "totals": totals,
        "evaluations": {version: (one.evaluator, one.metrics) for version, one in state.evaluations.items()},
    }
