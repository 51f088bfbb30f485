"""What a run takes of the disks is said before it does."""

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from driftline.broker.memory import MemoryBroker
from driftline.broker.port import Bounds
from driftline.launch.disk_watch import LOW_BYTES, DiskWatch
from driftline.observe.run.disk_use import deltas_between, disk_use, kept_deltas, size
from driftline.observe.run.progress import Progress
from driftline.schemas.run.config import RuleConfig, RunConfig
from tests.unit.shard_models import cut

CONFIG = RunConfig(name="r", workers=4, steps=1000, rule=RuleConfig(name="adamw", groups=({},)))
LAYOUT = cut([("w", 25_000_000, 0)])


def test_everything_is_kept_unless_somebody_says_otherwise() -> None:
    """1,000 versions of four deltas of 100 MB, and ten snapshots of master weights and two moments."""
    words = disk_use(CONFIG, LAYOUT)
    assert "about 400.0 MB of deltas a version, about 403.0 GB to version 1000" in words
    assert "kept for ever" in words


def test_without_an_end_there_is_no_sum() -> None:
    assert "to version" not in disk_use(replace(CONFIG, steps=0), LAYOUT)
    assert "a version, a copy" in disk_use(replace(CONFIG, steps=0), LAYOUT)


def test_behind_a_checkpoint_the_disk_stays_flat() -> None:
    """100 versions of deltas, and two snapshots while the older one is being replaced."""
    words = disk_use(replace(CONFIG, retain="checkpoint"), LAYOUT)
    assert "every 100 versions" in words
    assert "about 40.6 GB at a time" in words


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0.0 kB"), (999_900, "999.9 kB"), (1_000_000, "1.0 MB"), (2.5e15, "2500.0 TB")]
)
def test_sizes_are_said_in_units_of_a_thousand(count: float, words: str) -> None:
    assert size(count) == words


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


class Disk:
    """A disk whose free space is as told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = 10 * LOW_BYTES
        monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(free=self.free))


def test_a_disk_that_is_too_small_for_the_run_is_said_once_and_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Before the broker dies of it, with what to do."""
    disk, watch = Disk(monkeypatch), DiskWatch(tmp_path)
    seen = Progress(run="r", phase="", disk_bytes=disk.free + 5_000_000, wire_bytes=1_000_000)
    assert watch.look(replace(seen, disk_bytes=0), 0.0) == ""
    words = watch.look(seen, 10.0)
    assert "10.7 GB free" in words
    assert "takes about 10.7 GB more" in words
    assert "--retain checkpoint" in words
    assert watch.look(seen, 20.0) == ""


def test_a_disk_that_fills_up_is_said_each_time_half_is_gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever fills it."""
    disk, watch, seen = Disk(monkeypatch), DiskWatch(tmp_path), Progress(run="r", phase="")
    said = []
    for second, share in enumerate((10, 1, 0.9, 0.8, 0.4, 0.39, 0.1)):
        disk.free = int(share * LOW_BYTES)
        said.append(bool(watch.look(seen, second * 10.0)))
    assert said == [False, False, True, False, True, False, True]
    assert watch.look(seen, 61.0) == ""  # looked a moment ago


def test_the_disks_of_somebody_elses_kafka_are_not_seen() -> None:
    assert DiskWatch(None).look(Progress(run="r", phase="", disk_bytes=1 << 60), 0.0) == ""


def test_a_run_whose_deltas_are_gone_can_still_be_looked_at() -> None:
    """Its ledger tells where it stood; how much of the deltas is kept is unknown."""
    assert kept_deltas(MemoryBroker(), "gone", LAYOUT) is None


def test_a_folder_that_vanishes_is_said_once_and_ends_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    watch, seen = DiskWatch(folder), Progress(run="r", phase="")
    assert watch.look(seen, 0.0) == f"the disk of {folder} is not watched any longer: No such file or directory"
    assert watch.look(seen, 100.0) == ""
