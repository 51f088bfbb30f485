"""A disk that will not last for the run is reported before the broker ends of it."""

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from driftline.launch.disk_watch import LOW_BYTES, DiskWatch
from driftline.observe.run.progress import Progress


class Disk:
    """A disk whose free space a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = 10 * LOW_BYTES
        monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(free=self.free))


def test_a_disk_that_is_too_small_for_the_run_is_reported_once_and_at_once(
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


def test_a_disk_that_fills_up_is_reported_at_each_half(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By any program."""
    disk, watch, seen = Disk(monkeypatch), DiskWatch(tmp_path), Progress(run="r", phase="")
    said = []
    for second, share in enumerate((10, 1, 0.9, 0.8, 0.4, 0.39, 0.1)):
        disk.free = int(share * LOW_BYTES)
        said.append(bool(watch.look(seen, second * 10.0)))
    assert said == [False, False, True, False, True, False, True]
    assert watch.look(seen, 61.0) == ""  # looked a moment ago


def test_the_disks_of_another_kafka_are_not_watched() -> None:
    assert DiskWatch(None).look(Progress(run="r", phase="", disk_bytes=1 << 60), 0.0) == ""


def test_a_folder_that_vanishes_is_reported_once_and_ends_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    watch, seen = DiskWatch(folder), Progress(run="r", phase="")
    assert watch.look(seen, 0.0) == f"the disk of {folder} is not watched any longer: No such file or directory"
    assert watch.look(seen, 100.0) == ""
