"""A process dies between any two steps of an update, a snapshot and a takeover, and the run arrives where it must."""

import pytest

from driftline.testing.simulation.dying import DEATHS, has_bits, reach
from driftline.testing.simulation.fault_points import FaultPoint


@pytest.mark.parametrize("point", FaultPoint, ids=lambda point: point.name)
def test_a_death_at_any_point_leaves_every_promise_kept(point: FaultPoint) -> None:
    """At least three times at each; where only servers die, the bits are those of the undisturbed run."""
    reached = reach(point)
    assert reached.deaths >= DEATHS, str(reached)
    assert reached.compared or not has_bits(point), str(reached)
