"""``python -m driftline.testing.kills``: play the kill matrix; the same call goes on where it was interrupted."""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from driftline.broker.embedded import EmbeddedBroker
from driftline.testing.kills.matrix import MATRIX, Case
from driftline.testing.kills.play import Outcome, Play
from driftline.training.faults import parse_script

PROGRESS = "progress.jsonl"


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what is left; return the exit code: 0 every promise was kept, 1 one was not, 130 interrupted."""
    options = _parser().parse_args(arguments)
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    done = _done(folder / PROGRESS)
    try:
        for case in MATRIX:
            if case.name in (options.only or [case.name]) and case.name not in done:
                done[case.name] = line = _line(case, play(case, folder))
                with (folder / PROGRESS).open("a") as file:
                    file.write(json.dumps(line) + "\n")
                _say(_shown(line))
    except KeyboardInterrupt:
        _say(f"interrupted; the same call goes on from here ({folder / PROGRESS})")
        return 130
    for line in done.values():
        sys.stdout.write(f"{_shown(line)}\n")
    return 1 if any(line["broken"] for line in done.values()) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m driftline.testing.kills", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(".driftline/chaos"), help="where brokers and logs lie")
    names = [case.name for case in MATRIX]
    parser.add_argument("--only", nargs="+", choices=names, metavar="CASE", help=f"of {', '.join(names)}")
    return parser


def play(case: Case, folder: Path) -> Outcome:
    """Play one case on a broker of its own."""
    home, run = folder / f"broker-{case.nodes}", f"{case.name}-{time.time_ns():x}"
    faults = parse_script(case.script) if case.script else ()
    with EmbeddedBroker(home, nodes=case.nodes, prepare=False) as embedded:
        outcome = Play(embedded, case.job(run), faults, folder / case.name, same_bits=case.same_bits).run()
    if not outcome.broken:
        shutil.rmtree(home)  # else it is what shows why
    return outcome


def _done(path: Path) -> dict[str, dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {line["case"]: line for line in lines if not line["broken"]}


def _line(case: Case, outcome: Outcome) -> dict[str, Any]:
    gaps_s = sorted(outcome.gaps_s)
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
