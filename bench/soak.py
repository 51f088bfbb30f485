"""``python -m bench.soak``: a long run made short, whose memory and disk must stay flat.

What takes hours or days in a run of its own, records that expire, segments that are closed, compaction, takes seconds
here, because the topics are made with settings that say so; a checkpoint comes every tenth version, and deltas are
deleted behind it. So everything that a run of many hours forgets is forgotten many times over. The ledger is kept for
ever on purpose: its growth is a result of its own.

Flat means that the last third of the run needs no more than the middle third: the first is the coming up. Disk may be
more where versions came faster, as they do when a busy machine becomes a calm one: what is kept for ten seconds is more
then.
"""

import argparse
import contextlib
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from bench.conditions import conditions
from driftline.broker.embedded import EmbeddedBroker
from driftline.broker.topics import Stream, topic_name
from tests.kills.job import Job
from tests.kills.play import Outcome, Play

EVERY_S: Final = 2.0
"""Between two looks."""

CLOCK_S: Final = 0.05
"""Of a worker: a pace that a machine can keep."""

SPACE_MB: Final = 3.0
SPACE: Final = 0.05
"""By how much the last third may exceed the middle one: noise of an allocator, one segment more or less."""

_SMALL = {"segment.bytes": str(1 << 20), "segment.ms": "5000"}
POLICIES: Final[Mapping[Stream, Mapping[str, str]]] = {
    Stream.DELTAS: _SMALL,
    Stream.EVENTS: {**_SMALL, "retention.ms": "10000"},
    Stream.PARAMETERS: {**_SMALL, "retention.ms": "10000", "retention.bytes": str(4 << 20)},
    Stream.SNAPSHOTS: {**_SMALL, "min.compaction.lag.ms": "1000", "delete.retention.ms": "1000"},
}
"""Retention that is hundreds of times as fast as that of a run's own topics."""


@dataclass(slots=True)
class Looks:
    """What was seen, look by look: of each process its resident memory, of each stream its disk, in MB."""

    moments_s: list[float] = field(default_factory=list)
    seen: dict[str, list[float]] = field(default_factory=dict)

    def add(self, now_s: float, found: Mapping[str, float]) -> None:
        """Take one look."""
        self.moments_s.append(now_s)
        for name, value in found.items():
            self.seen.setdefault(name, []).append(value)

    def thirds(self, name: str) -> tuple[float, float]:
        """Return the highest of the middle third and of the last, in MB."""
        values = self.seen[name]
        third = len(values) // 3
        return max(values[third : 2 * third]), max(values[2 * third :])

    def faster(self, versions: Mapping[int, float]) -> float:
        """Return by what factor the last third was faster than the middle one, 1 at least.

        Args:
            versions: version → when it was seen, by the monotonic clock.
        """
        third = len(self.moments_s) // 3
        begin_s, end_s = self.moments_s[third], self.moments_s[2 * third]
        paces = [
            sum(low <= at < high for at in versions.values()) / (high - low)
            for low, high in ((begin_s, end_s), (end_s, self.moments_s[-1]))
        ]
        return max(1.0, paces[1] / max(paces[0], 1e-9))

    def grown(self, kept: Sequence[str], faster: float) -> list[str]:
        """Say what is not flat; ``kept`` names what may grow."""
        found = []
        for name in self.seen:
            middle, last = self.thirds(name)
            factor = faster if name.startswith("disk_") else 1.0
            if name not in kept and last > middle * factor * (1.0 + SPACE) + SPACE_MB:
                found.append(
                    f"{name} grew from {middle:.1f} to {last:.1f} MB, {factor:.1f} times that were to be expected"
                )
        return found


def soak(folder: Path, versions: int, say: Callable[[str], None]) -> tuple[dict[str, float], list[str]]:
    """Run it; return results and problems."""
    job = Job(run="soak", steps=versions, elements=16_384, snapshot_every=10, pause_s=CLOCK_S)
    with EmbeddedBroker(folder, prepare=False) as broker:
        play = Play(broker, job, (), folder / "logs", same_bits=True, policies=POLICIES)
        looks, outcomes = Looks(), list[Outcome]()
        runs = threading.Thread(target=lambda: outcomes.append(play.run()), name="soak")
        runs.start()
        while runs.is_alive():
            runs.join(EVERY_S)
            processes = play.processes
            if processes:
                found = _memory(processes | {"broker": _broker_pid(broker)}) | _disk(folder, job.run)
                looks.add(time.monotonic(), found)
                say(" ".join(f"{name} {value:.1f}" for name, value in found.items()))
    if not outcomes:
        raise RuntimeError("the run did not come to an end; what happened stands above")
    return _judged(looks, outcomes[0])


def _judged(looks: Looks, outcome: Outcome) -> tuple[dict[str, float], list[str]]:
    ledger, faster = f"disk_{Stream.LEDGER.value}", looks.faster(outcome.moments)
    results = {
        "soak_versions": float(outcome.told.version),
        "soak_s": outcome.training_s,
        "soak_looks": float(len(looks.moments_s)),
        "soak_last_third_faster": faster,
        "soak_ledger_bytes_a_version": 1e6 * looks.seen[ledger][-1] / max(1, outcome.told.version),
    }
    for name in looks.seen:
        results[f"soak_{name}_mb_middle"], results[f"soak_{name}_mb_last"] = looks.thirds(name)
    return results, [*outcome.broken, *looks.grown((ledger, "disk_other"), faster)]


def _broker_pid(broker: EmbeddedBroker) -> int:
    launch = broker.running(broker.nodes[0])
    return 0 if launch is None else launch.pid


def _memory(processes: Mapping[str, int]) -> dict[str, float]:
    """Return the resident memory of each process that runs, in MB."""
    found = dict[str, float]()
    for name, pid in processes.items():
        with contextlib.suppress(psutil.Error):
            found[f"memory_{name}"] = psutil.Process(pid).memory_info().rss / 1e6
    return found


def _disk(home: Path, run: str) -> dict[str, float]:
    """Return what each stream of the run takes of the broker's disk, in MB; what else it keeps is ``other``."""
    found = {f"disk_{stream.value}": 0.0 for stream in Stream} | {"disk_other": 0.0}
    names = {topic_name(run, stream): f"disk_{stream.value}" for stream in Stream}
    for folder in (home / "broker" / "node-1" / "data").iterdir():
        if folder.is_dir():
            found[names.get(folder.name.rpartition("-")[0], "disk_other")] += _size_mb(folder)
    return found


def _size_mb(folder: Path) -> float:
    size = 0
    for file in folder.iterdir():
        try:
            size += file.stat().st_blocks * 512  # indexes are made large and stay empty
        except FileNotFoundError:  # deleted while we look
            continue
    return size / 1e6


def main() -> int:
    """Run it and print what was seen; return 1 if something grows, or a promise was not kept."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--versions", type=int, default=5000, help="length of the run (default 5000)")
    arguments = parser.parse_args()
    described = conditions(vars(arguments))
    with tempfile.TemporaryDirectory(prefix="driftline-soak-") as folder:
        results, wrong = soak(Path(folder), arguments.versions, lambda line: print(line, file=sys.stderr, flush=True))
    print(json.dumps({**results, "conditions": described}, indent=2))
    for line in wrong:
        print(f"WRONG: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
