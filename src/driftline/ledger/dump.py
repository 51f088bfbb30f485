"""What a fold of the ledger comes to at a version, in one form only: the state that a `Checkpoint` carries.

Taken directly behind the record of a version, when nothing is under way in the ledger: every clock that is settled by
then is part of a version up to this one, whose result is in the snapshots. So no delta, use or record of a version
belongs to it. It is a function of the ledger alone, whatever its reader has forgotten by then.
"""

from __future__ import annotations

import math
from dataclasses import fields, replace
from reprlib import Repr
from struct import pack
from typing import TYPE_CHECKING, Final

from driftline.schemas.codec import encode
from driftline.schemas.records import (
    Checkpoint,
    FormerGroup,
    FrozenEvaluation,
    FrozenGroup,
    FrozenState,
    FrozenTotals,
    Lateness,
    LeaseRow,
    StateDigest,
)

if TYPE_CHECKING:
    from driftline.ledger.run_state import RunState
    from driftline.schemas.run.config import RunConfig

HEADS_KEPT: Final = 1024
"""Versions before the last checkpoint whose hashes are remembered: how far back a contribution may have begun."""

HEADS_BEYOND: Final = 64
"""So many more than a contribution may be stale, where that is bounded."""

FORMER_KEPT: Final = 1024
"""Groups that are no longer members, and are remembered: the newest."""

_SHORT = Repr()
_SHORT.maxother = _SHORT.maxstring = 80


def heads_kept(config: RunConfig) -> int:
    """Return how many versions before a checkpoint a contribution may still name."""
    bounds = config.consistency
    if bounds.tolerated is None or bounds.on_stale != "reject":
        return HEADS_KEPT
    return min(HEADS_KEPT, bounds.tolerated + HEADS_BEYOND)


def dump(state: RunState) -> FrozenState:
    """Return the state of a run that has started, directly behind the record of its newest version."""
    config, version = state.config, state.version
    return FrozenState(
        next_offset=state.next_offset,
        start_offset=state.start_offset,
        start_head=state.start_head,
        term=state.chain.term,
        head=state.chain.head,
        heads=tuple(state.heads[one] for one in range(max(0, version - heads_kept(config)), version)),
        groups=_groups(state),
        former=_former(state),
        first_names=state.first_names,
        leases=_leases(state),
        deltas_end=tuple(state.deltas_end.get(partition, 0) for partition in range(config.partitions)),
        last_publish=state.last_publish,
        digests=_digests(state),
        evaluations=_evaluations(state),
        totals=_totals(state),
    )


def difference(ours: FrozenState | None, record: Checkpoint) -> str:
    """Say where the state that a checkpoint carries is not the ledger's own at that version; nothing if it is."""
    if ours is None:
        return f"it brings a state of version {record.version}, which is no newest snapshot point"
    [theirs] = record.state
    if ours == theirs and _bits(ours) == _bits(theirs):
        return ""
    # Bytes, because a measured NaN is no other NaN than itself.
    if encode(replace(record, state=(ours,))) == encode(record):
        return ""
    name = next((one.name for one in fields(ours) if getattr(ours, one.name) != getattr(theirs, one.name)), "totals")
    said, right = (_SHORT.repr(getattr(one, name)) for one in (theirs, ours))
    return f"the {name} of its state of version {record.version} are {said}, and the ledger gives {right}"


def _bits(state: FrozenState) -> bytes:
    """Return what equality does not tell apart: the floating-point numbers of a state, 0.0 and -0.0 among them."""
    measured = [value for one in state.evaluations for value in one.metrics.values()]
    floats = (state.totals.samples, *state.totals.losses, *measured)
    return pack(f"{len(floats)}d", *floats)


def _groups(state: RunState) -> tuple[FrozenGroup, ...]:
    return tuple(
        FrozenGroup(
            group=one.id,
            worker=one.worker,
            incarnation=one.incarnation,
            settled_pace=one.settled_pace,
            settled_clock=one.settled_clock,
        )
        for _, one in sorted(state.groups.items())
    )


def _former(state: RunState) -> tuple[FormerGroup, ...]:
    newest = set(sorted(state.removed)[-FORMER_KEPT:])
    rows = sorted((group, *member) for member, group in state.joined.items() if group in newest)
    return tuple(
        FormerGroup(group=group, worker=worker, incarnation=incarnation) for group, worker, incarnation in rows
    )


def _leases(state: RunState) -> tuple[LeaseRow, ...]:
    return tuple(
        LeaseRow(kind=kind, first=first, second=second, third=third, fourth=fourth, fifth=fifth)
        for kind, first, second, third, fourth, fifth in state.leases.dump()
    )


def _digests(state: RunState) -> tuple[StateDigest, ...]:
    return (state.states[max(state.states)],) if state.states else ()


def _evaluations(state: RunState) -> tuple[FrozenEvaluation, ...]:
    if not state.evaluations:
        return ()
    newest = state.evaluations[max(state.evaluations)]
    return (FrozenEvaluation(version=newest.version, evaluator=newest.evaluator, metrics=newest.metrics),)


def _totals(state: RunState) -> FrozenTotals:
    totals = state.totals
    return FrozenTotals(
        contributions=dict(totals.contributions),
        skips=dict(totals.skips),
        rejections=dict(totals.rejections),
        rejection_reasons=dict(totals.rejection_reasons),
        staleness=tuple(Lateness(versions=late, count=count) for late, count in sorted(totals.staleness.items())),
        samples=totals.samples,
        losses=() if math.isnan(state.loss) else (state.loss,),
        published=totals.published,
        valid=state.chain.valid,
    )
