"""Buffers are bytes in the vector: a version takes them over from one contribution, and nothing computes with them."""

from functools import partial

import numpy as np
import pytest

from driftline.consumers.server.partition import HeldDelta, not_finite
from driftline.consumers.server.shard import Shard, ShardBuffers
from driftline.ledger import contradictions, policy
from driftline.rules import Engine, FloatArray, choose_engine
from driftline.rules.compiled import bind_to
from driftline.rules.loops import adagrad_loop, adam_loop, momentum_loop, sgd_loop
from driftline.schemas.model.layout import Layout, Segment
from driftline.schemas.records import NO_HASH, GroupId, ShardReceipt, Use, Version
from driftline.schemas.run.config import RuleConfig, RunConfig
from tests.support.shard_models import RULES_UNDER_TEST, numbers

LAYOUT = Layout(
    (
        Segment("weight", (), (4,), "float32", "parameter", 0, 0),
        Segment("mean", (), (3,), "float32", "buffer", -1, 4),
        Segment("bias", (), (2,), "float32", "parameter", 1, 7),
        Segment("seen", (), (), "int64", "buffer", -1, 9),
        Segment("mask", (), (7,), "bool", "buffer", -1, 11),
    ),
    1,
)
ALL = (True,) * 5
NO_NUMBERS = np.array(
    [0x7FA0_0001, 0xFFC1_2345, 0xFF80_0000, 0xFFFF_FFFF, 0x7F80_0001, 0x8000_0000, 0x0000_0001], np.uint32
).view(np.float32)
"""Signalling and quiet NaNs, an infinity, -0.0, a denormal: what a computation would change."""

LOOPS = (adam_loop, adagrad_loop, momentum_loop, sgd_loop)
INTERPRETED = Engine("interpreted", "", partial(bind_to, {loop: loop for loop in LOOPS}))


@pytest.fixture(params=["numpy", "interpreted", "numba"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Give every way to compute that is installed.

    Not before a test needs it: a rule that was changed is refused here, and the others shall fail and not be left out.
    """
    if request.param == "numba":
        pytest.importorskip("numba")
    return INTERPRETED if request.param == "interpreted" else choose_engine(request.param)


def shard(rule: str = "adamw", engine: Engine | None = None) -> Shard:
    """Return the one shard of `LAYOUT`."""
    return Shard(LAYOUT, RULES_UNDER_TEST[rule], 0, numbers("masters", 13), engine)


def payload(gradient: str) -> FloatArray:
    """Return what a worker sends: gradients, and buffers that are no numbers. Read-only, and not aligned."""
    flat = numbers(gradient, 13)
    flat[4:7], flat[9:] = NO_NUMBERS[:3], NO_NUMBERS[3:]
    return np.frombuffer(b"?" + flat.tobytes(), np.float32, offset=1)


def buffers_of(one: Shard) -> bytes:
    """Return the bytes of the buffers of a shard of `LAYOUT`."""
    return one.masters[4:7].tobytes() + one.masters[9:].tobytes()


@pytest.mark.parametrize("rule", RULES_UNDER_TEST)
def test_buffers_are_those_of_one_contribution_to_the_bit(rule: str, engine: Engine) -> None:
    """Whatever their bytes mean, in every rule and with every engine."""
    target = shard(rule, engine)
    one, other = payload("one"), numbers("other", 13)
    deltas = [(np.float32(0.5), other, ALL), (np.float32(0.5), one, ALL)]
    for version in (1, 2):
        target.apply(version, deltas, [0.1, 0.1], 0.5, (one, ALL))
        assert buffers_of(target) == NO_NUMBERS.tobytes()
    moments = {name: values for name, values in target.tensors().items() if name != "master"}
    untouched = [values[4:7].any() or values[9:].any() for values in moments.values()]
    assert not any(untouched)


def test_parameters_do_not_depend_on_buffers() -> None:
    """Taking them over, or having them at all, moves no bit of a weight."""
    without, having = shard(), shard()
    deltas = [(np.float32(1.0), payload("g"), ALL)]
    without.apply(1, deltas, [0.1, 0.1], 1.0)
    having.apply(1, deltas, [0.1, 0.1], 1.0, (payload("h"), ALL))
    assert without.masters[:4].tobytes() == having.masters[:4].tobytes()
    assert without.masters[7:9].tobytes() == having.masters[7:9].tobytes()
    assert buffers_of(without) == buffers_of(shard())


def test_a_buffer_without_its_bit_stays_as_it_is() -> None:
    """As of a worker that has lost it."""
    target = shard()
    target.apply(1, [(np.float32(1.0), payload("g"), ALL)], [0.1, 0.1], 1.0, (payload("g"), (True, False, *ALL[2:])))
    assert target.masters[4:7].tobytes() == shard().masters[4:7].tobytes()
    assert target.masters[9:].tobytes() == NO_NUMBERS[3:].tobytes()


@pytest.mark.parametrize(
    ("buffers", "words"),
    [
        ((numbers("b", 12), ALL), r"buffers is float32 of shape \(12,\)"),
        ((numbers("b", 13), ALL[:2]), "2 presence flags for 5 pieces"),
    ],
)
def test_buffers_that_do_not_fit_are_refused_before_anything_changes(buffers: ShardBuffers, words: str) -> None:
    target = shard()
    with pytest.raises(ValueError, match=words):
        target.apply(1, [], [], 1.0, buffers)
    assert (target.version, target.digests()) == (0, shard().digests())


def test_a_server_asks_only_of_gradients_that_they_are_finite() -> None:
    """A mask is full of -inf, and an int64 of -1 is NaN as a number."""
    receipt = ShardReceipt(shard=0, partition=0, offset=0, digest=NO_HASH)
    assert not_finite(LAYOUT, HeldDelta(receipt, payload("g"), ALL)) == ""
    broken = payload("g").copy()
    broken[8] = np.inf
    assert not_finite(LAYOUT, HeldDelta(receipt, broken, ALL)) == "not finite: bias in shard 0"


# -- whose buffers ---------------------------------------------------------------------------------------------------


def use(clock: int, staleness: int, coefficient: float = 0.5, kind: str = "delta") -> Use:
    """Return what a version settles."""
    return Use(
        group=GroupId(1, 0),
        clock=clock,
        kind=kind,
        base_version=7 - staleness,
        staleness=staleness,
        weight=1.0 if kind == "delta" else 0.0,
        loss=0.0,
        cursor=0,
        coefficient=coefficient if kind == "delta" else 0.0,
        root=NO_HASH,
    )


@pytest.mark.parametrize(
    ("uses", "chosen"),
    [
        ([], -1),
        ([use(1, 0, kind="skip")], -1),
        ([use(1, 0, coefficient=0.0)], -1),
        ([use(1, 0, kind="skip"), use(2, 3)], 1),
        ([use(1, 2), use(2, 1), use(3, 1)], 1),
        ([use(1, 0, coefficient=0.0), use(2, 4), use(3, 4)], 1),
        ([use(1, 0), use(2, 0)], 0),
    ],
)
def test_a_version_takes_the_buffers_of_the_least_stale_contribution_that_counts(uses: list[Use], chosen: int) -> None:
    """Of equals the first in canonical order; a skip or a coefficient of zero has none to give."""
    assert policy.buffers_of(uses) == chosen


CONFIG = RunConfig(name="r", workers=1, steps=9, partitions=1, rule=RuleConfig(name="sgd", groups=({"lr": 0.1},)))


@pytest.mark.parametrize(
    ("buffers_of", "layout", "problem"),
    [
        (-1, LAYOUT, ""),
        (1, LAYOUT, ""),
        (0, LAYOUT, "buffers of contribution 0, which has no delta"),
        (2, LAYOUT, "buffers of contribution 2 of 2"),
        (-2, LAYOUT, "buffers of contribution -2 of 2"),
        (1, Layout(LAYOUT.segments[:1], 1), "buffers of contribution 1, and the model has none"),
    ],
)
def test_a_ledger_that_names_no_buffers_that_there_are_is_refused(
    buffers_of: int, layout: Layout, problem: str
) -> None:
    record = Version(
        term=1,
        parent=NO_HASH,
        version=8,
        uses=(use(1, 0, kind="skip"), use(2, 0)),
        learning_rates=(0.1,),
        rho=1.0,
        positions=(1,),
        publish=True,
        states=(),
        buffers_of=buffers_of,
    )
    assert contradictions.in_version(record, CONFIG, layout) == problem
