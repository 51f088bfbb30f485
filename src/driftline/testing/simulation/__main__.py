"""``python -m driftline.testing.simulation``: replay a seed, or run a range of them."""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from driftline.testing.simulation.scenario import scenario
from driftline.testing.simulation.simulate import Report, SimulationFailure, simulate


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return _one(options.seed, options.events) if options.seeds is None else _range(options.seeds, options.progress)
    except SimulationFailure as failure:
        print(failure, file=sys.stderr)  # noqa: T201 - a command line
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m driftline.testing.simulation", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seed", type=int, help="replay one seed")
    what.add_argument("--seeds", type=_seeds, metavar="A:B", help="run seeds A up to, not including, B")
    parser.add_argument("--events", type=int, help="disturbed events, instead of what the seed says")
    parser.add_argument("--progress", type=Path, help="remember the next seed of a range here, and go on from there")
    return parser


def _seeds(text: str) -> range:
    first, _, last = text.partition(":")
    return range(int(first), int(last))


def _one(seed: int, events: int | None) -> int:
    report = simulate(scenario(seed, events=events))
    _print(report.events, [report])
    print(f"version {report.version}, digest {report.digest.hex()}, trace {report.fingerprint:08x}")  # noqa: T201
    return 0


def _range(seeds: range, progress: Path | None) -> int:
    reports: list[Report] = []
    for seed in _left(seeds, progress):
        reports.append(simulate(seed))
        if progress is not None:
            progress.write_text(f"{seed + 1}\n", encoding="utf-8")
    _print(sum(report.events for report in reports), reports)
    return 0


def _left(seeds: range, progress: Path | None) -> Iterator[int]:
    first = seeds.start
    if progress is not None and progress.exists():
        first = max(first, int(progress.read_text(encoding="utf-8")))
    return iter(range(first, seeds.stop))


def _print(events: int, reports: Sequence[Report]) -> None:
    faults = sum((report.faults for report in reports), Counter())
    lines = [f"{count:8d}  {kind.name}: {kind.value}" for kind, count in sorted(faults.items())]
    same = sum(report.same_bits for report in reports)
    removals = sum(report.removals for report in reports)
    rejections = sum(report.rejections for report in reports)
    lines += [
        f"{len(reports)} seeds, {events} events, {sum(faults.values())} faults of {len(faults)} kinds",
        f"{same} compared to the bit with an undisturbed run; {removals} removals, {rejections} rejections",
    ]
    print("\n".join(lines))  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
