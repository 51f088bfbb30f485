"""Measure where the time of one update goes, and write the page about it.

python -m bench.update_time --measure    measures, and writes results.json, the page and its drawing
python -m bench.update_time              makes page and drawing from results.json
"""

import argparse
import contextlib
import os
import statistics
import tempfile
import time
from pathlib import Path

import psutil

from bench.conditions import conditions
from bench.path import PARTITIONS, WARM_UP_S, OurPath
from bench.raw_path import RawPath
from bench.update_time import chart, page
from bench.update_time.log_times import log_times
from bench.update_time.results import Results, load, save
from bench.update_time.samples import sampling
from driftline.broker.embedded import EmbeddedBroker
from driftline.schemas.model.layout import MAX_SHARD_ELEMENTS

RUN = "update-time"


def main() -> None:
    """Measure if asked to; write page and drawing."""
    parser = argparse.ArgumentParser(prog="python -m bench.update_time", description=__doc__)
    parser.add_argument("--measure", action="store_true", help="measure first (Linux, with perf)")
    parser.add_argument("--shards", type=int, default=16, help="full shards of the model (default 16)")
    parser.add_argument("--updates", type=int, default=60, help="counted updates (default 60)")
    arguments = parser.parse_args()
    if arguments.measure:
        save(measured(arguments.shards, arguments.updates))
    results = load()
    chart.DRAWING.write_text(chart.drawn(results), encoding="utf-8")
    page.PAGE.write_text(page.written(page.PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
    print(f"written: {chart.DRAWING.name}, {page.PAGE.name}")


def measured(shards: int, updates: int) -> Results:
    """Measure updates of one worker, which is this process, and one server on a Kafka of their own."""
    before = conditions({"shards": shards, "updates": updates})
    with tempfile.TemporaryDirectory(prefix="driftline-bench-") as name, EmbeddedBroker(Path(name) / "kafka") as broker:
        folder, address = Path(name), broker.bootstrap_servers
        ours = OurPath(address, RUN, shards * MAX_SHARD_ELEMENTS)
        raw = RawPath(address, PARTITIONS)
        values = [os.urandom(4 * MAX_SHARD_ELEMENTS) for _ in range(shards)]
        try:
            warm_s = time.monotonic() + WARM_UP_S
            while time.monotonic() < warm_s:
                raw.round_s(values)
                ours.round_s()
            raw_s = [raw.round_s(values) for _ in range(updates)]
            processes = {"worker": os.getpid(), "server": ours.server_pid, "broker": jvm_of(folder)}
            first = ours.version + 1
            with sampling(folder, processes) as samples:
                ours_s = [ours.round_s() for _ in range(updates)]
        finally:
            ours.close()
            raw.close()
        times = log_times(address, RUN, PARTITIONS, range(first, first + updates))
    return Results(
        conditions=before,
        shards=shards,
        updates=updates,
        update_ms=1000 * statistics.median(ours_s),
        raw_ms=1000 * statistics.median(raw_s),
        computing_ms={
            process: {kind: ms / updates for kind, ms in kinds.items()} for process, kinds in samples.items()
        },
        log_ms=times,
    )


def jvm_of(folder: Path) -> int:
    """Return the process id of the JVM whose working directory is in ``folder``."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # it has ended, or belongs to another user
            if Path(process.exe()).name == "java" and folder in Path(process.cwd()).parents:
                return process.pid
    raise RuntimeError(f"no JVM works in {folder}")


if __name__ == "__main__":
    main()
