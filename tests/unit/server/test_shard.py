"""What a version does to a shard, and what it leaves alone."""

import hashlib

import numpy as np
import pytest

from driftline.consumers.server.shard import Shard
from driftline.errors import NonFiniteState
from driftline.rules import FloatArray
from driftline.schemas.run.config import RuleConfig
from tests.support.shard_models import RULES_UNDER_TEST, Contribution, Model, cut, numbers

LAYOUT = cut([("weight", 4, 0), ("mask", 2, -1), ("bias", 3, 1)])
ALL = (True, True, True)
ONE = np.float32(1.0)


def shard(rule: str = "adamw", masters: FloatArray | None = None) -> Shard:
    """Return the one shard of `LAYOUT`."""
    return Shard(LAYOUT, RULES_UNDER_TEST[rule], 0, numbers("masters", 9) if masters is None else masters)


def flat_sgd(elements: int = 4) -> Shard:
    """Return a shard of one segment at zero, under plain SGD."""
    layout = cut([("w", elements, 0)])
    return Shard(layout, RuleConfig(name="sgd", groups=({},)), 0, np.zeros(elements, np.float32))


@pytest.mark.parametrize("workers", [1, 2, 4, 8])
def test_gradient_one_from_each_worker_moves_a_weight_by_exactly_lr(workers: int) -> None:
    """More workers mean a better mean, not a larger step."""
    target = flat_sgd()
    gradient = np.ones(4, np.float32)
    target.apply(1, [(np.float32(1 / workers), gradient, [True])] * workers, [0.1], 1.0)
    assert target.masters.tolist() == [-float(np.float32(0.1))] * 4


def test_a_version_without_contributions_changes_nothing_but_the_number() -> None:
    """A recorded no-op: no decay, no step count, no product."""
    target = shard()
    target.apply(1, [(ONE, numbers("g", 9), ALL)], [0.1, 0.1], 1.0)
    before, steps = target.digests(), target.steps
    target.apply(2, [], [], 0.0)
    assert target.version == 2
    assert (target.digests(), target.steps) == (before, steps)


@pytest.mark.parametrize("rule", RULES_UNDER_TEST)
def test_a_segment_that_no_contribution_has_a_gradient_for_is_untouched(rule: str) -> None:
    """No decay, no step count, whatever the payload holds in its place; the others step."""
    target = shard(rule)
    target.apply(1, [(ONE, numbers("g1", 9), ALL)], [0.1, 0.1], 1.0)
    before, steps = target.tensors(), target.steps
    holes = numbers("g2", 9)
    holes[6:] = np.nan
    target.apply(2, [(ONE, holes, (True, False, False))] * 2, [0.1, 0.1], 1.0)
    after = target.tensors()
    assert all(before[name][6:].tobytes() == after[name][6:].tobytes() for name in before)
    assert before["master"][:4].tobytes() != after["master"][:4].tobytes()
    assert target.steps[2] == steps[2]
    assert target.steps[0].steps == 2


def test_a_segment_steps_by_its_own_count() -> None:
    """Bias correction and the first momentum step belong to a segment's own first gradient, not to version 1."""
    for rule in ("adamw", "momentum"):
        late, fresh = shard(rule), shard(rule)
        gradient = numbers("g", 9)
        late.apply(1, [(ONE, gradient, (True, True, False))], [0.1, 0.1], 1.0)
        late.apply(2, [(ONE, gradient, ALL)], [0.1, 0.1], 1.0)
        fresh.apply(1, [(ONE, gradient, ALL)], [0.1, 0.1], 1.0)
        assert late.masters[6:].tobytes() == fresh.masters[6:].tobytes()


def test_an_absent_gradient_among_others_counts_as_zero_to_the_byte() -> None:
    """Whether a worker sends zeros or nothing, the others' step is the same."""
    absent, zeros = shard(), shard()
    gradient, nothing = numbers("g", 9), numbers("other", 9)
    gradient[7] = -0.0
    absent.apply(1, [(ONE, gradient, ALL), (ONE, nothing, (True, True, False))], [0.1, 0.1], 1.0)
    nothing[6:] = 0.0
    zeros.apply(1, [(ONE, gradient, ALL), (ONE, nothing, ALL)], [0.1, 0.1], 1.0)
    assert absent.digests() == zeros.digests()


def test_frozen_segments_keep_their_bytes() -> None:
    """NaN, infinities and -0.0 are legitimate there: an attention mask is full of -inf."""
    masters = numbers("masters", 9)
    masters[4:6] = np.array([0xFFC1_2345, 0xFF80_0000], np.uint32).view(np.float32)
    target = shard(masters=masters)
    target.apply(1, [(ONE, numbers("g", 9), ALL)], [0.1, 0.1], 1.0)
    assert target.masters[4:6].tobytes() == masters[4:6].tobytes()


def test_minus_zero_is_kept_by_its_byte() -> None:
    """-0.0 - lr * 0.0 is -0.0; equality alone would not notice another byte."""
    target = flat_sgd()
    target = Shard(cut([("w", 2, 0)]), RuleConfig(name="sgd", groups=({},)), 0, np.array([-0.0, 0.0], np.float32))
    target.apply(1, [(ONE, np.zeros(2, np.float32), [True])], [0.1], 1.0)
    assert target.masters.tobytes() == np.array([-0.0, 0.0], np.float32).tobytes()


def test_gradients_and_masters_stay_as_they_came() -> None:
    """They are views of the bytes of messages: read-only, and read again by others."""
    message = numbers("masters", 9).tobytes()
    delta = numbers("g", 9).tobytes()
    digest = hashlib.sha256(message + delta).digest()
    target = shard(masters=np.frombuffer(message, np.float32))
    for version in (1, 2):
        target.apply(version, [(ONE, np.frombuffer(delta, np.float32), ALL)] * 2, [0.1, 0.1], 1.0)
    assert hashlib.sha256(message + delta).digest() == digest


def test_tensors_are_copies_with_the_master_first() -> None:
    """A snapshot does not change while it is being sent."""
    target = shard()
    tensors = target.tensors()
    assert list(tensors) == ["master", "exp_avg", "exp_avg_sq"]
    before = {name: values.tobytes() for name, values in tensors.items()}
    target.apply(1, [(ONE, numbers("g", 9), ALL)], [0.1, 0.1], 1.0)
    assert {name: values.tobytes() for name, values in tensors.items()} == before
    assert all(values.tobytes() != before[name] for name, values in target.tensors().items())
    with pytest.raises(ValueError, match="read-only"):
        target.masters[0] = 0.0


def test_digests_are_over_masters_then_moments_by_name() -> None:
    """The tensors are enough to check them."""
    target = shard()
    target.apply(1, [(ONE, numbers("g", 9), ALL)], [0.1, 0.1], 1.0)
    tensors = {name: values.astype("<f4").tobytes() for name, values in target.tensors().items()}
    state = hashlib.sha256(tensors["master"] + tensors["exp_avg"] + tensors["exp_avg_sq"]).digest()
    assert target.digests() == (state, hashlib.sha256(tensors["master"]).digest())


@pytest.mark.parametrize("version", [0, 1, 3])
def test_only_the_next_version_is_applied(version: int) -> None:
    """A repeated or skipped version is a fault of the caller, and changes nothing."""
    target = shard()
    target.apply(1, [(ONE, numbers("g", 9), ALL)], [0.1, 0.1], 1.0)
    before = target.digests()
    with pytest.raises(ValueError, match=f"shard 0 is at version 1; {version} is not the next"):
        target.apply(version, [(ONE, numbers("g", 9), ALL)], [0.1, 0.1], 1.0)
    assert (target.version, target.digests()) == (1, before)


def test_arguments_that_do_not_fit_the_layout_are_refused_before_anything_changes() -> None:
    """Another shape, dtype, number of flags, number of learning rates, or rho outside its range."""
    good, before = numbers("g", 9), shard().digests()
    for deltas, rates, rho, words in (
        ([(ONE, good, ALL), (ONE, good[:8], ALL)], [0.1, 0.1], 1.0, "shape"),
        ([(ONE, good.astype(np.float64), ALL)], [0.1, 0.1], 1.0, "float64"),
        ([(ONE, good, (True,))], [0.1, 0.1], 1.0, "presence flags"),
        ([(ONE, good, ALL)], [0.1], 1.0, "learning rates"),
        ([(ONE, good, ALL)], [0.1, 0.1], 0.0, "rho"),
        ([(ONE, good, ALL)], [0.1, 0.1], 1.5, "rho"),
    ):
        target = shard()
        with pytest.raises(ValueError, match=words):
            target.apply(1, deltas, rates, rho)  # type: ignore[arg-type]
        assert (target.version, target.digests()) == (0, before)
    with pytest.raises(ValueError, match=r"masters is float32 of shape \(8,\)"):
        shard(masters=good[:8])
    with pytest.raises(ValueError, match="'bias' is in group 1 of 1"):
        Shard(LAYOUT, RuleConfig(name="sgd", groups=({},)), 0, good)


@pytest.mark.parametrize(
    ("rule", "place", "value", "tensor"),
    [
        ("sgd", 8, np.nan, "master"),
        ("adamw", 7, np.inf, "master"),
        ("adam", 0, 1e30, "exp_avg_sq"),  # its square overflows; the master itself would stay finite
        ("adagrad", 1, 1e30, "sum"),
        ("momentum", 2, -np.inf, "master"),
    ],
)
def test_a_result_that_is_not_finite_stops_the_shard_by_name(rule: str, place: int, value: float, tensor: str) -> None:
    """Version, shard, segment and tensor are named; nothing can be read or published from it any more."""
    target = shard(rule)
    gradient = numbers("g", 9)
    target.apply(1, [(ONE, gradient, ALL)], [0.1, 0.1], 1.0)
    gradient[place] = value
    segment = "weight" if place < 4 else "bias"
    with pytest.raises(NonFiniteState, match=rf"version 2 makes {tensor} of '{segment}' \(shard 0\)"):
        target.apply(2, [(ONE, gradient, ALL)], [0.1, 0.1], 1.0)
    assert target.version == 1
    for use in (target.tensors, target.digests, lambda: target.apply(2, [], [], 1.0)):
        with pytest.raises(NonFiniteState):
            use()


def test_moments_start_from_what_their_group_says_and_frozen_segments_from_zero() -> None:
    """Adagrad's sum; what belongs to no group has no use for one."""
    sums = shard("adagrad").tensors()["sum"]
    assert sums.tolist() == [0.5] * 4 + [0.0] * 5


def test_masters_whose_squares_overflow_are_finite() -> None:
    """The quick look at them is in doubt; the exact one decides."""
    target = Shard(cut([("w", 4, 0)]), RuleConfig(name="sgd", groups=({},)), 0, np.full(4, 1e30, np.float32))
    target.apply(1, [(ONE, np.full(4, 1e30, np.float32), [True])], [1.0], 1.0)
    assert target.masters.tolist() == [0.0] * 4
    target.apply(2, [(ONE, np.full(4, -3e38, np.float32), [True])], [1.0], 1.0)
    assert target.masters.tolist() == [float(np.float32(3e38))] * 4


def test_overflow_of_the_sum_is_found_although_each_gradient_is_finite() -> None:
    """Receipts prove that each delta is finite; their sum may still not be."""
    target = flat_sgd()
    huge = np.full(4, 3e38, np.float32)
    with pytest.raises(NonFiniteState, match="'w'"):
        target.apply(1, [(ONE, huge, [True])] * 2, [0.1], 1.0)


@pytest.mark.parametrize("beta", ["beta1", "beta2"])
def test_a_rate_too_small_to_correct_by_stops_the_shard(beta: str) -> None:
    """1 - (1 - beta) rho can round to 1, and then nothing would ever move: better said than silently so."""
    rule = RuleConfig(name="adamw", groups=({beta: 1 - 2**-53},))
    target = Shard(cut([("w", 4, 0)]), rule, 0, np.zeros(4, np.float32))
    with pytest.raises(NonFiniteState, match="'w'"):
        target.apply(1, [(ONE, np.ones(4, np.float32), [True])], [0.1], 0.5)


def test_groups_have_their_own_rate_and_settings() -> None:
    """Group 1 has weight decay and a tenth of the rate."""
    layout = cut([("a", 2, 0), ("b", 2, 1)], 2)
    rule = RuleConfig(name="sgd", groups=({}, {"weight_decay": 0.5}))
    model = Model(layout, rule, np.ones(4, np.float32))
    model.apply([Contribution(1.0, np.ones(4, np.float32))], [0.5, 0.25])
    assert model.tensors()["master"].tolist() == [0.5, 0.5, 0.625, 0.625]
