"""Whatever honest processes and disturbed brokers do to a run, its log proves it."""

import pytest

from driftline.broker.topics import Stream
from tests.recorded import fold
from tests.simulation.run.actors import Cores
from tests.simulation.run.scenario import Fault, scenario
from tests.simulation.world.simulate import play
from tests.simulation.world.world import World
from tests.support.verifiable import Log


@pytest.mark.parametrize("seed", range(16))
def test_a_run_with_every_kind_of_fault_is_proven(seed: int) -> None:
    """Crashes, zombies, re-sends, rubbish, another run's records, forged void records, conflicting deltas."""
    world = World(scenario(seed), Cores())
    play(world)
    log = Log({place: [] for place in world.log.ends})
    for one in world.landed:
        log.values[one.stream, one.partition].append(one.value)
    report = log.verify()
    assert report.first_bad is None, f"seed {seed}: {report.first_bad}"
    assert report.is_proven
    assert (report.version, report.ended) == (world.promises.ledger.now.version, True)
    assert report.versions == report.version + 1 - report.first
    points = fold(log).publish_points
    before = sum(point < report.first for point in points)
    assert report.equal == len(points) - before
    assert (report.unproven, report.between, report.unreached) == (before, report.versions - report.equal, 0)
    assert report.counts["removals"] == len(world.promises.ledger.gone)
    assert report.counts["rejections"] == len(world.promises.ledger.rejections)
    if world.faults[Fault.VOID_RECORD]:
        assert report.counts["ledger_void"] > 0
    deltas = sum(len(values) for (stream, _), values in log.values.items() if stream is Stream.DELTAS)
    assert deltas == sum(count for name, count in report.counts.items() if name.startswith("deltas_"))
