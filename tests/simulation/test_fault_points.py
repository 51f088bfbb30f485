"""A process dies between any two steps of an update, a snapshot and a takeover, and the run arrives where it must."""

import pytest

from tests.simulation.deaths.dying import has_bits, reach
from tests.simulation.deaths.fault_points import FaultPoint


@pytest.mark.parametrize("point", FaultPoint, ids=lambda point: point.name)
def test_a_death_at_any_point_leaves_every_promise_kept(point: FaultPoint) -> None:
    """Once at each here, three times in ``make chaos``; where only servers die, the undisturbed run's bits come out."""
    reached = reach(point, deaths=1)
    assert reached.deaths > 0, str(reached)
    assert reached.compared or not has_bits(point), str(reached)
