"""A worker at its bound closes its version by count, in whatever order its contributions and receipts are heard."""

from dataclasses import replace
from itertools import permutations

import pytest

from driftline.consumers.coordinator.decisions import decide
from driftline.consumers.coordinator.evidence import Evidence
from driftline.ledger.run_state import RunState
from driftline.schemas.digests import contribution_root
from driftline.schemas.records import Contribution, Event, Receipt, ShardReceipt, Version
from driftline.schemas.run.consistency import Consistency
from tests.support.small_ledger import CONFIG, G1, G2, LAYOUT, UUID, Ledger

DIGEST = b"d" * 32
BY_COUNT = replace(
    CONFIG, consistency=Consistency(mode="buffered", buffer=4, ahead=2, weighting="polynomial"), max_unsettled=2
)
WHOLE = tuple(
    ShardReceipt(shard=shard, partition=shard, offset=0, digest=DIGEST) for shard in range(LAYOUT.shard_count)
)


def _said(state: RunState) -> list[Event]:
    """Each worker spends its two clocks; the second of the first worker is refused by a server."""
    root = contribution_root([DIGEST] * LAYOUT.shard_count)
    events: list[Event] = []
    for group in (G1, G2):
        for clock in (1, 2):
            refused = (group, clock) == (G1, 2)
            offer = Contribution(
                run=UUID, group=group, clock=clock, base_version=0, base_head=state.heads[0], weight=1.0, loss=0.5,
                cursor=clock - 1, shards=LAYOUT.shard_count, root=root, learning_rates=(), samples=(),
            )  # fmt: skip
            receipt = Receipt(
                run=UUID, server="s", incarnation=bytes(16), group=group, clock=clock,
                shards=() if refused else WHOLE, refusal="not finite: weight" if refused else "",
            )  # fmt: skip
            events += [offer, receipt]
    return events


def _started() -> RunState:
    state = RunState()
    for offset, value in enumerate(Ledger(BY_COUNT).start().values):
        state.read(offset, value)
    return state


@pytest.mark.parametrize("last", range(8))
def test_a_refusal_behind_a_pending_clock_closes_the_version_in_any_order_of_events(last: int) -> None:
    state = _started()
    said = _said(state)
    before, final = [*said[:last], *said[last + 1 :]], said[last]
    for order in list(permutations(before))[:: 5040 // 24]:
        evidence = Evidence(state)
        for event in order:
            evidence.add(event, ticks_read=0)
            assert decide(state, evidence, 0) is None
        evidence.add(final, ticks_read=0)
        version = decide(state, evidence, 0)
        assert isinstance(version, Version)
        assert [(use.group, use.clock) for use in version.uses] == [(G1, 1), (G2, 1), (G2, 2)]
