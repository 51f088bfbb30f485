"""What the coordinator believes of an event, and what it counts for."""

import dataclasses

import pytest

from driftline.ledger import policy
from driftline.ledger.event_check import event_problem, shorten
from driftline.ledger.policy import weight_problem
from driftline.ledger.run_state import RunState
from driftline.schemas.records import Event, Heartbeat, PartitionPosition, Receipt, ServerState, ShardDigest, Skip
from driftline.schemas.run.consistency import MAX_STALENESS, Consistency
from tests.support.small_ledger import LAYOUT
from tests.support.strategies import SAMPLES

RECEIPT = next(one for one in SAMPLES if isinstance(one, Receipt))
STATE = next(one for one in SAMPLES if isinstance(one, ServerState))
SKIP = next(one for one in SAMPLES if isinstance(one, Skip))
BEAT = next(one for one in SAMPLES if isinstance(one, Heartbeat))
STATE_AT_700 = RunState()
STATE_AT_700.layout, STATE_AT_700.version, STATE_AT_700.has_begun = LAYOUT, 700, True
PLACED = tuple(dataclasses.replace(one, partition=one.shard) for one in RECEIPT.shards)


def with_shard(shard: int = 0, partition: int = 0, offset: int = 0) -> Receipt:
    """Return a receipt whose first shard is said to be elsewhere."""
    first = dataclasses.replace(PLACED[0], shard=shard, partition=partition, offset=offset)
    return dataclasses.replace(RECEIPT, shards=(first, *PLACED[1:]))


def with_digest(shard: int, version: int) -> ServerState:
    """Return a server's state with one digest."""
    return dataclasses.replace(
        STATE, shards=(ShardDigest(shard=shard, version=version, state=bytes(32), masters=bytes(32)),)
    )


def test_what_members_of_a_run_say_is_believed() -> None:
    """The layout of the told run has four shards in four partitions; version 640 is within reach of 700."""
    for event in (BEAT, SKIP, dataclasses.replace(RECEIPT, shards=PLACED), STATE, with_digest(3, 764)):
        assert event_problem(event, STATE_AT_700) == ""


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (with_shard(shard=4), "shard 4 of 4"),
        (with_shard(shard=-1), "shard -1 of 4"),
        (with_shard(partition=1), "shard 0 does not live in partition 1"),
        (with_shard(offset=-1), "offset -1"),
        (with_shard(offset=2**63 - 1), f"offset {2**63 - 1}"),
        (dataclasses.replace(RECEIPT, clock=0), "clock 0"),
        (dataclasses.replace(SKIP, clock=-3), "clock -3"),
        (dataclasses.replace(SKIP, cursor=-1), "cursor -1"),
        (dataclasses.replace(SKIP, cursor=2**53 + 1), f"cursor {2**53 + 1}"),
        (dataclasses.replace(STATE, version=-1), "version -1"),
        (dataclasses.replace(STATE, version=2**62), f"version {2**62}"),
        (dataclasses.replace(STATE, partitions=(PartitionPosition(partition=10**6, position=0),)), "partition 1000000"),
        (with_digest(4, 700), "shard 4 at version 700"),
        (with_digest(0, 765), "shard 0 at version 765"),
        (dataclasses.replace(BEAT, member=""), "no legal name"),
        (dataclasses.replace(BEAT, member="../x"), "no legal name"),
        (dataclasses.replace(STATE, server="x" * 65), "no legal name"),
    ],
)
def test_what_cannot_be_is_not(event: Event, problem: str) -> None:
    """Shards and partitions beyond the layout, versions beyond the ledger, impossible names."""
    assert problem in event_problem(event, STATE_AT_700)


@pytest.mark.parametrize("weight", [0.0, -0.0, 2.0**-53, 1.0, 2.0**53])
def test_a_weight_is_a_number_of_samples(weight: float) -> None:
    """From next to nothing to more than there are."""
    assert weight_problem(weight) == ""


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf"), 5e-324, 1e300])
def test_a_weight_that_would_spoil_the_mean_is_refused(weight: float) -> None:
    """One contribution must not make the others count for nothing, or for NaN."""
    assert repr(weight) in weight_problem(weight)


def test_the_stalest_contribution_still_has_a_share() -> None:
    """However steep the damping: the rule divides by the sum of what is left."""
    bounds = Consistency(mode="async", buffer=1, weighting="polynomial", exponent=100.0)
    shares, rho = policy.coefficients([2.0**-53], [bounds.factor(MAX_STALENESS)], damps_rates=True)
    assert shares == [1.0]
    assert 0.0 < rho < 1e-90


def test_a_reason_is_cut_to_what_a_ledger_record_holds() -> None:
    """It says that it was cut."""
    assert shorten("short") == "short"
    assert shorten("x" * 10**6).endswith("x…")
    assert len(shorten("x" * 10**6).encode()) < 4_096
