"""The simulation finds every bug that is put into the state machines on purpose, within a bounded number of seeds."""

import pytest

from tests.simulation.planted import ALL
from tests.simulation.planted.planting import Planted
from tests.simulation.world.simulate import SimulationFailure, simulate


@pytest.mark.parametrize("bug", ALL, ids=str)
def test_a_planted_bug_is_found(bug: Planted) -> None:
    for seed in range(bug.seeds):
        try:
            simulate(bug.plan(seed), bug.cores)
        except SimulationFailure:
            return
    pytest.fail(f"{bug.seeds} seeds pass although a process {bug.name}, against invariant {bug.breaks}")


def test_at_least_fifteen_bugs_are_planted() -> None:
    assert len({bug.name for bug in ALL}) >= 15
