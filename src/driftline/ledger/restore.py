"""From the state that a `Checkpoint` carries back to the fold that it was taken of."""

import math
from collections import Counter

from driftline.errors import DriftlineError, IntegrityError
from driftline.ledger.leases import Leases
from driftline.ledger.run_state import Group, RunState, Totals
from driftline.schemas.records import Checkpoint, Evaluation, FrozenState, FrozenTotals, RunStart


class NotRestorable(DriftlineError):
    """No fold of any ledger comes to the state that a checkpoint carries."""


def restore(record: Checkpoint, start: RunStart) -> RunState:
    """Return the fold of the ledger at the version of a checkpoint, as every process that folded it has it.

    It lacks what no later record asks for: why members were removed, and what `RunState.forget_before` drops at this
    version.

    Args:
        record: carries a state.
        start: of the run, as it stands in the ledger where the state says.

    Raises:
        NotRestorable: no fold comes to this state.
    """
    [dumped] = record.state
    try:
        state = _restored(record, dumped, start)
        is_other = record.version not in state.heads or state.dump(state) != dumped
    except (IntegrityError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise NotRestorable(f"the state of version {record.version} cannot be: {error!r}") from None
    if is_other:
        raise NotRestorable(f"the state of version {record.version} cannot be: its own dump is another one")
    return state


def _restored(record: Checkpoint, dumped: FrozenState, start: RunStart) -> RunState:
    state, version = RunState(), record.version
    state.chain.head = dumped.start_head
    state.begin(dumped.start_offset, start)
    state.chain.head, state.chain.term = dumped.head, dumped.term
    state.chain.valid = dumped.totals.valid
    state.next_offset, state.version, state.began_at = dumped.next_offset, version, version
    state.heads = dict(enumerate((*dumped.heads, dumped.head), version - len(dumped.heads)))
    _take_groups(state, dumped)
    rows = ((one.kind, one.first, one.second, one.third, one.fourth, one.fifth) for one in dumped.leases)
    workers = {one.group: one.worker for one in dumped.groups}
    state.leases = Leases.restored(state.config, rows, workers)
    state.deltas_end = dict(enumerate(dumped.deltas_end))
    state.last_publish = dumped.last_publish
    state.publish_points = {version} & {dumped.last_publish}
    state.states = {one.version: one for one in dumped.digests}
    state.evaluations = {
        one.version: Evaluation(
            term=dumped.term,
            parent=dumped.head,
            version=one.version,
            evaluator=one.evaluator,
            metrics=one.metrics,
        )
        for one in dumped.evaluations
    }
    state.loss = dumped.totals.losses[0] if dumped.totals.losses else math.nan
    state.totals = _totals(dumped.totals)
    state.dumps = {version: dumped}
    return state


def _take_groups(state: RunState, dumped: FrozenState) -> None:
    joined = sorted(
        [(one.group, one.worker, one.incarnation) for one in dumped.groups]
        + [(one.group, one.worker, one.incarnation) for one in dumped.former]
    )
    state.joined = {(worker, incarnation): group for group, worker, incarnation in joined}
    state.removed = {one.group: "" for one in dumped.former}
    state.first_names = dumped.first_names
    state.groups = {
        one.group: Group(one.group, one.worker, one.incarnation, one.settled_pace, one.settled_clock)
        for one in dumped.groups
    }


def _totals(dumped: FrozenTotals) -> Totals:
    return Totals(
        contributions=Counter(dumped.contributions),
        skips=Counter(dumped.skips),
        rejections=Counter(dumped.rejections),
        rejection_reasons=Counter(dumped.rejection_reasons),
        staleness=Counter({one.versions: one.count for one in dumped.staleness}),
        samples=dumped.samples,
        published=dumped.published,
    )
