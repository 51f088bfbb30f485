"""``python -m tests.simulation``: replay a seed, or run a range of them."""

import argparse
import os
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from tests.simulation.run.scenario import scenario
from tests.simulation.seeds.progress import Progress, code_digest
from tests.simulation.seeds.runner import run_blocks
from tests.simulation.seeds.tally import Tally
from tests.simulation.world.simulate import SimulationFailure, simulate

EVERY_S = 5.0
"""Seconds between two lines of progress."""

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; return the exit code: 0 all well, 1 a seed failed, 130 interrupted."""
    options = _parser().parse_args(arguments)
    if options.seeds is None:
        return _one(options.seed, options.events)
    return _range(Progress(options.seeds, options.progress, code_digest()), options.jobs)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seed", type=int, help="replay one seed")
    what.add_argument("--seeds", type=_seeds, metavar="N|A:B", help="run N seeds, or seeds A up to, not including, B")
    parser.add_argument("--events", type=int, help="disturbed events of --seed, instead of what the seed says")
    parser.add_argument(
        "--progress", type=Path, metavar="DIR", help="keep here what is done of a range, and go on from there"
    )
    parser.add_argument("--jobs", type=_jobs, default=os.cpu_count() or 1, help="processes; default: all cores")
    return parser


def _seeds(text: str) -> range:
    first, colon, last = text.partition(":")
    try:
        seeds = range(int(first), int(last)) if colon else range(int(first))
    except ValueError:
        seeds = range(0)
    if not seeds:
        raise argparse.ArgumentTypeError(f"{text!r} names no seeds; give N for seeds 0 to N-1, or A:B with A < B")
    return seeds


def _jobs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes; give 1 or more")
    return int(text)


def _one(seed: int, events: int | None) -> int:
    plan, tally = scenario(seed, events=events), Tally()
    try:
        report = simulate(plan)
    except SimulationFailure as failure:
        print(failure, file=sys.stderr)  # noqa: T201 - a command line
        return 1
    tally.passed(plan, report)
    _print(tally.lines())
    _print([f"version {report.version}, digest {report.digest.hex()}, trace {report.fingerprint:08x}"])
    return 0


def _range(progress: Progress, jobs: int) -> int:
    before = progress.total()
    if before.seeds:
        _say(f"{before.seeds:,} of {len(progress.seeds):,} seeds are done already, see {progress.path}")
    try:
        _run(progress, jobs, before.seeds)
    except KeyboardInterrupt:
        _say(f"interrupted {_where(progress)}")
        return INTERRUPTED
    except BrokenProcessPool:
        _say(f"a process was killed, from outside or for want of memory, {_where(progress)}")
        return 1
    return _told(progress.total())


def _where(progress: Progress) -> str:
    kept = f"the same command goes on from here ({progress.path})" if progress.path else "nothing is kept"
    return f"after {progress.total().seeds:,} of {len(progress.seeds):,} seeds: {kept}"


def _run(progress: Progress, jobs: int, before: int) -> None:
    began_s, said_s, done = time.monotonic(), time.monotonic(), before
    for block, tally in run_blocks(progress.left(), jobs):
        progress.done(block, tally)
        done += tally.seeds
        for seed, what in tally.failed.items():
            _say(f"{what}\n  {_replay(seed)}")
        now_s = time.monotonic()
        if now_s - said_s >= EVERY_S:
            said_s = now_s
            _say(_pace(done, len(progress.seeds), (done - before) / (now_s - began_s)))


def _pace(done: int, of: int, a_second: float) -> str:
    return f"{done:,} of {of:,} seeds, {a_second:.1f} a second, {(of - done) / a_second / 60:.0f} minutes left"


def _told(total: Tally) -> int:
    _print(total.lines())
    for seed, what in sorted(total.failed.items()):
        _print([f"failed: {what}", f"  {_replay(seed)}"])
    _print([f"{len(total.failed):,} of {total.seeds:,} seeds failed" if total.failed else "every promise was kept"])
    return 1 if total.failed else 0


def _replay(seed: int) -> str:
    return f"replay: python -m tests.simulation --seed {seed}"


def _print(lines: Iterable[str]) -> None:
    print("\n".join(lines), flush=True)  # noqa: T201 - a command line


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - a command line


if __name__ == "__main__":
    sys.exit(main())
