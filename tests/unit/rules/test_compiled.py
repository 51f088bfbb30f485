"""The loops give numpy's bits: interpreted, everywhere; and compiled by numba, where it is installed."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftline.rules import RULES, Engine, FloatArray, Kernel, Settings, choose_engine
from driftline.rules.compiled import SAMPLES, bind_to, differences
from driftline.rules.loops import adagrad_loop, adam_loop, loop_of, momentum_loop, sgd_loop
from tests.support.shard_models import RULES_UNDER_TEST, digest_of_story
from tests.unit.rules import test_golden as golden

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
LOOPS = (adam_loop, adagrad_loop, momentum_loop, sgd_loop)
INTERPRETED = Engine("interpreted", "", partial(bind_to, {loop: loop for loop in LOOPS}))


@pytest.fixture(scope="module")
def numba() -> Engine:
    """Return the compiled engine, or skip."""
    pytest.importorskip("numba", reason="numba is not installed; pip install 'driftline[fast]'")
    return choose_engine("numba")


def test_every_rule_has_a_loop_and_every_loop_is_compared_at_start() -> None:
    """A rule without one would be slow in silence."""
    assert {rule.name for rule, _ in SAMPLES} == set(RULES)
    found = [loop_of(rule.step(rule.complete(group), rule.start(), 0.1, 1.0)[1]) for rule, group in SAMPLES]
    assert {one[0] for one in found if one} == set(LOOPS)


def test_a_kernel_without_a_loop_stays_as_it_is() -> None:
    """A new rule is right before it is fast."""

    class Other:
        def __call__(
            self, master: FloatArray, moments: Sequence[FloatArray], update: FloatArray, scratch: FloatArray
        ) -> None:
            """Do nothing."""

        def takes(self, gradient: FloatArray) -> bool:
            """Take none."""
            return gradient is None

    kernel: Kernel = Other()
    assert bind_to({}, kernel) is kernel


def test_the_interpreted_loops_give_the_same_bits() -> None:
    """So the lines are right, whatever compiles them."""
    with np.errstate(all="ignore"):
        assert list(differences(INTERPRETED.bind)) == []
    assert {case: golden.computed(case, INTERPRETED) for case in golden.CASES} == {
        case: golden.computed(case) for case in golden.CASES
    }


def test_a_fused_operation_would_be_found() -> None:
    """The numbers compared at start tell a sum of an unrounded product from ours."""

    def fused(master: FloatArray, update: FloatArray, c: tuple[np.float32, ...]) -> None:
        wide = master + update * 0 if not c[0] else update.astype(np.float64) + master.astype(np.float64) * float(c[1])
        master[:] = (master - wide.astype(np.float64) * float(c[2])).astype(np.float32)

    loops = {**{loop: loop for loop in LOOPS}, sgd_loop: fused}
    (problem,) = differences(partial(bind_to, loops))
    assert problem.startswith("sgd {'weight_decay': 0.1}: ")


def test_the_compiled_loops_give_the_committed_bits(numba: Engine) -> None:
    """The golden file, and whatever is compared at start."""
    assert list(differences(numba.bind)) == []
    assert golden.all_computed(numba) == golden.committed()


@pytest.mark.parametrize("threads", range(1, 9))
@pytest.mark.parametrize("rule", RULES_UNDER_TEST)
def test_compiled_bits_depend_neither_on_the_cut_nor_on_threads(rule: str, threads: int, numba: Engine) -> None:
    """The loops run without the interpreter's lock, so threads do meet."""
    assert digest_of_story(rule, 3 * threads, numba, threads) == digest_of_story(rule)


numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)
some = st.sampled_from([0.0, 1e-8, 0.01, 0.5, 0.9])
GROUPS: Mapping[str, st.SearchStrategy[Settings]] = {
    "sgd": st.fixed_dictionaries({"momentum": some, "dampening": some, "weight_decay": some})
    | st.fixed_dictionaries({"momentum": st.just(0.9), "nesterov": st.just(1.0), "weight_decay": some}),
    "adam": st.fixed_dictionaries({"beta1": some, "beta2": some, "eps": some, "weight_decay": some}),
    "adamw": st.fixed_dictionaries({"beta1": some, "beta2": some, "eps": some, "weight_decay": some}),
    "adagrad": st.fixed_dictionaries({"lr_decay": some, "eps": some, "weight_decay": some}),
}


@pytest.mark.parametrize("name", RULES)
@given(data=st.data(), offset=st.integers(0, 7), size=st.integers(1, 40), rho=st.sampled_from([1.0, 0.5, 0.3]))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_compiled_steps_agree_on_any_numbers(
    name: str, data: st.DataObject, offset: int, size: int, rho: float, numba: Engine
) -> None:
    """Denormals, -0.0, overflow, a gradient at any byte: the same bytes, NaN where the other has NaN."""
    rule = RULES[name]
    group = rule.complete(data.draw(GROUPS[name]))
    vectors = [np.array(data.draw(st.lists(numbers, min_size=size, max_size=size)), np.float32) for _ in range(4)]
    message = bytes(offset) + vectors[3].tobytes()
    update = np.frombuffer(message, np.float32, offset=offset)
    moments = [np.abs(vector) for vector in vectors[1:3]][: len(rule.moments([group]))]
    ours, theirs = ([vectors[0].copy(), *(moment.copy() for moment in moments)] for _ in range(2))
    state = rule.start()
    for _ in range(2):
        state, kernel = rule.step(group, state, 0.1, rho)
        with np.errstate(all="ignore"):
            kernel(ours[0], ours[1:], update.copy(), np.empty(size, np.float32))
            numba.bind(kernel)(theirs[0], theirs[1:], update, np.empty(0, np.float32))
    for left, right in zip(ours, theirs, strict=True):
        nan = np.isnan(left)
        assert np.array_equal(nan, np.isnan(right))
        assert left[~nan].tobytes() == right[~nan].tobytes()


def test_compiled_bits_do_not_depend_on_the_cpu(numba: Engine) -> None:
    """Compiled for a CPU without any optional vector unit, and so without fused operations."""
    code = (
        "from tests.support.shard_models import *\nfrom driftline.rules import choose_engine\n"
        "print(*(digest_of_story(rule, engine=choose_engine('numba')) for rule in RULES_UNDER_TEST))"
    )
    environment = {**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    environment["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(ROOT / "src")))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == [digest_of_story(rule, engine=numba) for rule in RULES_UNDER_TEST]
