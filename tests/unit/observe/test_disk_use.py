"""What a run takes of the disks is said before it does."""

from dataclasses import replace

from driftline.broker.port import Bounds
from driftline.ledger.run_state import RunState
from driftline.observe.run.disk_use import deltas_between, disk_use, kept_deltas
from driftline.schemas.run.config import RuleConfig, RunConfig
from driftline.testing.memory import MemoryBroker
from tests.support.shard_models import cut

CONFIG = RunConfig(name="r", workers=4, steps=1000, rule=RuleConfig(name="adamw", groups=({},)))
LAYOUT = cut([("w", 25_000_000, 0)])


def test_every_delta_is_kept_by_default() -> None:
    """1,000 versions of four deltas of 100 MB, and ten snapshots of master weights and two moments."""
    words = disk_use(CONFIG, LAYOUT)
    assert "about 400.0 MB of deltas a version, about 403.0 GB to version 1000" in words
    assert "kept for ever" in words


def test_without_an_end_there_is_no_sum() -> None:
    assert "to version" not in disk_use(replace(CONFIG, steps=0), LAYOUT)
    assert "a version, in each copy" in disk_use(replace(CONFIG, steps=0), LAYOUT)


def test_behind_a_checkpoint_the_disk_stays_flat() -> None:
    """100 versions of deltas, and two snapshots while the older one is being replaced."""
    words = disk_use(replace(CONFIG, retain="checkpoint"), LAYOUT)
    assert "every 100 versions" in words
    assert "about 40.6 GB at a time" in words


def test_what_is_kept_is_counted_by_offsets() -> None:
    """Two shards in one partition: each clock has a delta of both, and those before the begin are gone."""
    layout = cut([("w", 25, 0)])
    shards = {partition: layout.shards_of(partition) for partition in range(8)}
    bounds = {partition: Bounds(2, 5) for partition, held in shards.items() if held}
    one = {partition: deltas_between({partition: bounds[partition]}, layout) for partition in bounds}
    assert sum(one.values()) == deltas_between(bounds, layout)
    for partition, kept in one.items():
        starts_and_stops = [layout.shard_range(shard) for shard in shards[partition]]
        clocks = 3 / len(shards[partition])
        assert kept == clocks * 4 * sum(stop - start for start, stop in starts_and_stops)
    assert deltas_between({7: Bounds(0, 9)} if not shards[7] else {}, layout) == 0


def test_a_run_whose_deltas_are_gone_can_still_be_looked_at() -> None:
    """Its ledger tells where it stood; how much of the deltas is kept is unknown."""
    state = RunState()
    state.has_begun, state.layout = True, LAYOUT
    assert kept_deltas(MemoryBroker(), "gone", state) is None
