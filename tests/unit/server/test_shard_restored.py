"""A shard that is rebuilt from its snapshots goes on with the bits of the one that wrote them."""

import numpy as np
import pytest

from driftline.consumers.server.shard import Shard
from driftline.rules import tensor_names
from tests.support.shard_models import RULES_UNDER_TEST, cut, numbers

LAYOUT = cut([("weight", 4, 0), ("mask", 2, -1), ("bias", 3, 1)])
ONE = np.float32(1.0)


def worn(rule: str) -> Shard:
    """Return a shard of three versions, whose pieces have made different numbers of steps."""
    shard = Shard(LAYOUT, RULES_UNDER_TEST[rule], 0, numbers("masters", 9))
    for version, presence in enumerate(((True, True, True), (True, True, False), (True, True, True)), 1):
        shard.apply(version, [(ONE, numbers(f"g{version}", 9), presence)], [0.1, 0.1], 0.5 if version == 2 else 1.0)
    return shard


@pytest.mark.parametrize("rule", RULES_UNDER_TEST)
def test_it_goes_on_with_the_same_bits(rule: str) -> None:
    """Weights, moments, step counts and running products; from read-only views, as records have them."""
    shard = worn(rule)
    tensors = {**shard.tensors(), "steps": shard.packed_steps()}
    assert sorted(tensors) == tensor_names(RULES_UNDER_TEST[rule])
    for values in tensors.values():
        values.flags.writeable = False
    again = Shard.restored(LAYOUT, RULES_UNDER_TEST[rule], 0, 3, tensors)
    assert (again.version, again.steps, again.digests()) == (shard.version, shard.steps, shard.digests())
    for one in (shard, again):
        one.apply(4, [(ONE, numbers("g4", 9), (True, True, True))], [0.1, 0.1], 1.0)
    assert (again.steps, again.digests()) == (shard.steps, shard.digests())


def test_what_is_missing_is_named() -> None:
    shard = worn("adamw")
    with pytest.raises(ValueError, match="exp_avg_sq"):
        Shard.restored(
            LAYOUT,
            RULES_UNDER_TEST["adamw"],
            0,
            3,
            {"master": shard.masters, "steps": shard.packed_steps(), "exp_avg": shard.masters},
        )


@pytest.mark.parametrize("tensor", ["master", "exp_avg", "steps"])
def test_a_tensor_of_another_size_is_refused(tensor: str) -> None:
    shard = worn("adamw")
    tensors = {**shard.tensors(), "steps": shard.packed_steps()}
    with pytest.raises(ValueError, match=tensor):
        Shard.restored(LAYOUT, RULES_UNDER_TEST["adamw"], 0, 3, {**tensors, tensor: tensors[tensor][:-1]})
