"""From the state that a `Checkpoint` carries back to the fold that it was taken of."""

import math
from collections import Counter

from driftline.errors import DriftlineError, IntegrityError
from driftline.ledger.leases import Leases
from driftline.ledger.run_state import Group, RunState, Totals
from driftline.schemas.records import Checkpoint, Evaluation, FrozenState, FrozenTotals, RunStart


class NotThawed(DriftlineError):
    """A frozen state is none: no fold of any ledger comes to it."""


def thaw(record: Checkpoint, start: RunStart) -> RunState:
    """Return the fold of the ledger at the version of a checkpoint, as whoever folded it there has it.

    What no fold behind it asks for is not there: why somebody was removed, and anything that `RunState.forget_before`
    drops at this version.

    Args:
        record: carries a state.
        start: of the run, as it stands in the ledger where the state says.

    Raises:
        NotThawed: no fold comes to this state.
    """
    [frozen] = record.state
    try:
        state = _thawed(record, frozen, start)
        is_other = record.version not in state.heads or state.freeze(state) != frozen
    except (IntegrityError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise NotThawed(f"the state of version {record.version} cannot be: {error!r}") from None
    if is_other:
        raise NotThawed(f"the state of version {record.version} cannot be: thawed and frozen again it is another one")
    return state


def _thawed(record: Checkpoint, frozen: FrozenState, start: RunStart) -> RunState:
    state, version = RunState(), record.version
    state.chain.head = frozen.start_head
    state.begin(frozen.start_offset, start)
    state.chain.head, state.chain.term = frozen.head, frozen.term
    state.chain.valid = frozen.totals.valid
    state.next_offset, state.version, state.began_at = frozen.next_offset, version, version
    state.heads = dict(enumerate((*frozen.heads, frozen.head), version - len(frozen.heads)))
    _take_groups(state, frozen)
    rows = ((one.kind, one.first, one.second, one.third, one.fourth, one.fifth) for one in frozen.leases)
    workers = {one.group: one.worker for one in frozen.groups}
    state.leases = Leases.thawed(state.config, rows, workers)
    state.deltas_end = dict(enumerate(frozen.deltas_end))
    state.last_publish = frozen.last_publish
    state.publish_points = {version} & {frozen.last_publish}
    state.states = {one.version: one for one in frozen.digests}
    state.evaluations = {
        one.version: Evaluation(
            term=frozen.term,
            parent=frozen.head,
            version=one.version,
            evaluator=one.evaluator,
            metrics=one.metrics,
        )
        for one in frozen.evaluations
    }
    state.loss = frozen.totals.losses[0] if frozen.totals.losses else math.nan
    state.totals = _totals(frozen.totals)
    state.frozen = {version: frozen}
    return state


def _take_groups(state: RunState, frozen: FrozenState) -> None:
    joined = sorted(
        [(one.group, one.worker, one.incarnation) for one in frozen.groups]
        + [(one.group, one.worker, one.incarnation) for one in frozen.former]
    )
    state.joined = {(worker, incarnation): group for group, worker, incarnation in joined}
    state.removed = {one.group: "" for one in frozen.former}
    state.first_names = frozen.first_names
    state.groups = {
        one.group: Group(one.group, one.worker, one.incarnation, one.settled_pace, one.settled_clock)
        for one in frozen.groups
    }


def _totals(frozen: FrozenTotals) -> Totals:
    return Totals(
        contributions=Counter(frozen.contributions),
        skips=Counter(frozen.skips),
        rejections=Counter(frozen.rejections),
        rejection_reasons=Counter(frozen.rejection_reasons),
        staleness=Counter({one.versions: one.count for one in frozen.staleness}),
        samples=frozen.samples,
        published=frozen.published,
    )
