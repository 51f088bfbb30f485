"""Two thousand seeds keep every promise, and so do some by name: those that found a bug, those whose bits are known."""

from collections import Counter
from dataclasses import replace

import pytest

from driftline.consumers.coordinator.decisions import DECISIONS
from driftline.schemas.run.consistency import MODES
from tests.simulation.run.scenario import Fault, Scenario, in_lock_step, scenario
from tests.simulation.seeds.many import SEEDS, Record, block_id, check_seeds
from tests.simulation.seeds.progress import blocks
from tests.simulation.world.simulate import simulate

FOUND = {
    "a receipt whose send failed was never sent again": 3,
    "a candidate that lost the events stopped the reading of its own shards": 5,
    "a Ready of another run, heard before RunStart, became a member": 10,
}
"""Seeds with whole menus of faults, by what they find in the state machines as they were."""

FOUND_IN_OTHER_MODES = {
    "a refused clock behind a pending one did not count, so that no version closed and no worker could start": 1008,
    "the same with a worker that comes back": 2310,
    "the same, where the refusal was heard before the contribution that it is of": 36496,
    "a member was replaced by a claim whose process had died meanwhile": 42640,
    "a checkpoint overtook a publish point whose digests no server could report any more": 867,
    "the same in mode async": 1998,
    "a checkpoint asked for deltas that an earlier one had given up": 36882,
    "the simulation itself let no process enter at a checkpoint before one that is too old to carry a state": 47656,
    "what was heard before the start counted as heard at tick 0: an end without patience": 22407,
    "the same: a worker removed too soon": 27316,
}
"""Seeds as they are, each in its own mode; none is stopped early."""

FOUND_WHERE_SOMEBODY_ASKS_FOR_THE_END = {
    "the last version's digests were told before its parameters were in the log": 17433,
    "an end without patience, as ticks of before the start counted": 22407,
}
"""Seeds as they are."""


@pytest.mark.parametrize("block", list(blocks(range(SEEDS))), ids=block_id)
def test_seeds_keep_every_promise(block: range, record_property: Record) -> None:
    check_seeds(block, record_property)


@pytest.mark.parametrize("seed", [3, 4, 6, 12, 14])
def test_disturbed_runs_in_lock_step_have_the_bits_of_undisturbed_ones(seed: int) -> None:
    """Whatever was crashed, doubled, delayed or failed, as long as no worker was lost and nothing skipped."""
    report = simulate(in_lock_step(scenario(seed)))
    assert report.same_bits
    assert sum(report.faults.values()) > 0


def test_every_mode_is_among_the_seeds() -> None:
    modes = Counter(scenario(seed).config.consistency.mode for seed in range(SEEDS))
    assert set(modes) == set(MODES)
    assert min(modes.values()) >= SEEDS // 10


def test_runs_that_a_command_stops_are_among_the_seeds_of_every_mode() -> None:
    plans = [scenario(seed) for seed in range(SEEDS)]
    assert {plan.config.consistency.mode for plan in plans if plan.stop_at is not None} == set(MODES)


@pytest.mark.parametrize("seed", [13, 113, 131, 180])
def test_a_run_that_a_command_stops_ends_before_its_last_version(seed: int) -> None:
    plan = replace(scenario(seed), stop_at=300)
    config = replace(plan.config, steps=plan.config.steps or 12, data=replace(plan.config.data, epochs=0))
    assert simulate(replace(plan, config=config)).version < config.steps


def test_models_with_buffers_are_among_the_seeds_of_every_mode() -> None:
    plans = [scenario(seed) for seed in range(SEEDS)]
    assert {plan.config.consistency.mode for plan in plans if plan.buffers} == set(MODES)
    assert SEEDS // 5 <= sum(plan.buffers for plan in plans) <= 2 * SEEDS // 5


@pytest.mark.parametrize("seed", [0, 1, 4])
def test_an_undisturbed_run_with_buffers_has_those_of_one_loop_without_a_log(seed: int) -> None:
    assert simulate(replace(_quiet(seed), buffers=True)).same_bits


def test_a_head_that_workers_do_not_know_is_published_before_anything_is_rejected() -> None:
    """In async with a bound, workers knew version 0 alone: all they sent was too stale, and rejecting it came first."""
    names = [decision.__name__ for decision in DECISIONS]
    assert names.index("_publish") < names.index("_rejection")


@pytest.mark.parametrize("found", FOUND)
def test_a_seed_that_found_a_bug_passes(found: str) -> None:
    simulate(in_lock_step(scenario(FOUND[found])))


@pytest.mark.parametrize("found", FOUND_IN_OTHER_MODES)
def test_a_seed_that_found_a_bug_in_its_own_mode_passes(found: str) -> None:
    simulate(replace(scenario(FOUND_IN_OTHER_MODES[found]), stop_at=None))


@pytest.mark.parametrize("seed", [0, 1, 4])
def test_an_undisturbed_run_has_the_bits_of_one_loop_without_a_log(seed: int) -> None:
    report = simulate(_quiet(seed))
    assert report.same_bits
    assert not report.faults
    assert report.removals == report.rejections == 0


def _quiet(seed: int) -> Scenario:
    return replace(in_lock_step(scenario(seed, events=0, faults=())), calm_until=0)


@pytest.mark.parametrize("kind", Fault, ids=lambda kind: kind.name)
def test_every_kind_of_fault_happens_and_is_survived(kind: Fault) -> None:
    faults = Counter[Fault]()
    for seed in range(10):
        faults += simulate(scenario(seed, events=400, faults=(kind,))).faults
        if faults[kind]:
            return
    pytest.fail(f"{kind.name} never happened")


def test_outages_and_clock_jumps_alone_remove_no_member() -> None:
    for seed in range(12):
        plan = in_lock_step(scenario(seed, faults=(Fault.OUTAGE, Fault.CLOCK_JUMP)))
        patient = replace(plan, config=replace(plan.config, gone_after_ticks=12), prompt=0.95, fault_share=0.03)
        report = simulate(patient)
        assert report.faults[Fault.OUTAGE]
        assert report.removals == 0
        assert report.same_bits


@pytest.mark.parametrize("found", FOUND_WHERE_SOMEBODY_ASKS_FOR_THE_END)
def test_a_seed_that_found_a_bug_passes_with_its_request_to_stop(found: str) -> None:
    plan = scenario(FOUND_WHERE_SOMEBODY_ASKS_FOR_THE_END[found])
    assert plan.stop_at is not None
    simulate(plan)
