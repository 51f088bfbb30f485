"""``python -m tests.kills``: play the kill matrix, then let real servers die at every point.

The same call goes on where it was interrupted.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

from driftline.broker.embedded import EmbeddedBroker
from driftline.launch.faults import parse_script
from driftline.schemas.model.layout import MAX_SHARD_ELEMENTS
from tests.kills.job import Job
from tests.kills.matrix import MATRIX, Case
from tests.kills.play import Outcome, Play
from tests.simulation.deaths.dying import DEATHS, has_bits
from tests.simulation.deaths.fault_points import FaultPoint, When

PROGRESS = "progress.jsonl"

POINT_STEPS = 30
FEW, MANY = 4096, 2 * MAX_SHARD_ELEMENTS + 1
"""Elements: one shard a partition; three shards, so that one server has two to do the same with."""

TAKEN_OVER = frozenset({FaultPoint.SNAPSHOT_LOADED})
"""Points that no process reaches which is there from the start: version 0 is no snapshot of a checkpoint."""

LOSS = "kill server-1@12"
"""Why another server takes over, behind the checkpoint of version 10."""

NTH = (3, 1, 2, 1, 1, 1)
"""How often each server passes a point before it dies there; what is reached once a start alone needs several plays."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what is left; return the exit code: 0 every promise was kept, 1 one was not, 130 interrupted."""
    options = _parser().parse_args(arguments)
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    done = _done(folder / PROGRESS)
    plays: dict[str, Callable[[], dict[str, Any]]] = {case.name: partial(_case, case, folder) for case in MATRIX}
    plays |= {_name_of(point): partial(_point, point, folder) for point in FaultPoint if has_bits(point)}
    try:
        for name, play_it in plays.items():
            if name not in done and any(fnmatch(name, pattern) for pattern in options.only):
                done[name] = line = play_it()
                with (folder / PROGRESS).open("a") as file:
                    file.write(json.dumps(line) + "\n")
                _say(_shown(line))
    except KeyboardInterrupt:
        _say(f"interrupted; the same call goes on from here ({folder / PROGRESS})")
        return 130
    for line in done.values():
        sys.stdout.write(f"{_shown(line)}\n")
    hits, deaths = (sum(line.get(name, 0) for line in done.values()) for name in ("hit", "deaths"))
    sys.stdout.write(f"{hits} processes were hit in {len(done)} cases, {deaths} killed themselves at a point\n")
    return 1 if any(line["broken"] for line in done.values()) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(".driftline/chaos"), help="where brokers and logs lie")
    parser.add_argument(
        "--only", nargs="+", default=["*"], metavar="CASE", help="such as leader, or 'point-*' for deaths at points"
    )
    return parser


def play(case: Case, folder: Path) -> Outcome:
    """Play one case on a broker of its own."""
    faults = parse_script(case.script) if case.script else ()
    with _broker(folder, case.nodes) as embedded:
        return Play(embedded, case.job(_run(case.name)), faults, folder / case.name, same_bits=case.same_bits).run()


def play_point(point: FaultPoint, folder: Path) -> Iterator[Outcome]:
    """Play short runs in which each server kills itself once at a point, if it gets there."""
    name = _name_of(point)
    with _broker(folder, 1) as embedded:
        for nth in NTH:
            elements = MANY if point.value.when is When.BETWEEN else FEW
            job = Job(run=_run(name), steps=POINT_STEPS, snapshot_every=5, elements=elements)
            faults = parse_script(LOSS) if point in TAKEN_OVER else ()
            yield Play(embedded, job, faults, folder / name, same_bits=True, death=(point, nth)).run()


@contextmanager
def _broker(folder: Path, nodes: int) -> Iterator[EmbeddedBroker]:
    home = folder / f"broker-{nodes}"
    shutil.rmtree(home, ignore_errors=True)
    with EmbeddedBroker(home, nodes=nodes, prepare=False) as embedded:
        yield embedded


def _run(name: str) -> str:
    return f"{name}-{time.time_ns():x}"


def _name_of(point: FaultPoint) -> str:
    return f"point-{point.name.lower().replace('_', '-')}"


def _case(case: Case, folder: Path) -> dict[str, Any]:
    return _line(case, play(case, folder))


def _point(point: FaultPoint, folder: Path) -> dict[str, Any]:
    deaths, broken, plays = 0, list[str](), 0
    for outcome in play_point(point, folder):
        deaths, plays = deaths + outcome.deaths, plays + 1
        broken += outcome.broken
        if deaths >= DEATHS or broken:
            break
    if deaths < DEATHS:
        broken.append(f"only {deaths} servers died there")
    return {"case": _name_of(point), "broken": broken, "deaths": deaths, "plays": plays}


def _done(path: Path) -> dict[str, dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {line["case"]: line for line in lines if not line["broken"]}


def _line(case: Case, outcome: Outcome) -> dict[str, Any]:
    gaps_s = sorted(gap for gap in outcome.gaps_s if gap is not None)
    return {
        "case": case.name,
        "broken": outcome.broken,
        "faults": sum(one.version is not None for one in outcome.disturbances),
        "hit": outcome.hits,
        "version": outcome.told.version,
        "digest": outcome.digest[:16] if case.same_bits else "",
        "terms": outcome.told.terms,
        "joins": outcome.told.joins,
        "acknowledged": outcome.acknowledged,
        "settled": len(outcome.told.settled),
        "gap_s": round(gaps_s[len(gaps_s) // 2], 2) if gaps_s else None,
        "seconds": round(outcome.seconds, 1),
    }


def _shown(line: dict[str, Any]) -> str:
    words = " ".join(f"{name} {value}" for name, value in line.items() if name not in ("case", "broken"))
    verdict = "\n  ".join(["BROKEN", *line["broken"]]) if line["broken"] else "kept"
    return f"{line['case']}: {words}: {verdict}"


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
