"""The page about the time of one update: its tables are made of the results, everything else is written by hand.

A table stands between ``<!-- table NAME -->`` and ``<!-- end -->``.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bench.update_time.results import PROCESSES, Results
from bench.update_time.samples import KINDS
from driftline.schemas.model.layout import MAX_SHARD_ELEMENTS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "where-the-time-goes.md"
MARKER = re.compile(r"(?<=<!-- table )(?P<name>[^>]+?)(?P<end> -->\n).*?(?=<!-- end -->)", re.DOTALL)
RECORDS = {
    "Delta": "the worker's deltas",
    "Contribution": "its contribution",
    "Receipt": "the server's receipt",
    "Version": "the version, in the ledger",
    "Parameters": "the server's parameters",
}
"""What an update writes, in this order."""


def written(page: str, results: Results) -> str:
    """Return the page with all its tables made again.

    Raises:
        KeyError: the page names a table that there is not.
    """
    made = tables(results)
    return MARKER.sub(lambda found: f"{found['name']}{found['end']}\n{made[found['name']]}\n", page)


def tables(results: Results) -> Mapping[str, str]:
    """Return all tables by name, in Markdown."""
    return {"computing": _computing(results), "log": _log(results), "conditions": _conditions(results)}


def _computing(results: Results) -> str:
    kinds = [kind for kind in KINDS if any(kind in found for found in results.computing_ms.values())]
    lines = [
        [process, *(_ms(found.get(kind)) for kind in kinds), _ms(sum(found.values()))]
        for process, found in ((name, results.computing_ms[name]) for name in PROCESSES)
    ]
    sums = [sum(found.get(kind, 0.0) for found in results.computing_ms.values()) for kind in kinds]
    return _table(["ms of computing", *kinds, "in all"], [*lines, ["in all", *map(_ms, sums), _ms(sum(sums))]])


def _log(results: Results) -> str:
    lines = []
    for kind, what in RECORDS.items():
        times = results.log_ms[kind]
        lines.append([what, str(len(times)), f"{times[0]:.0f}", f"{times[-1]:.0f}"])
    return _table(["in the log, ms after the first delta", "records", "first", "last"], lines)


def _conditions(results: Results) -> str:
    conditions = results.conditions
    megabytes = 4 * MAX_SHARD_ELEMENTS * results.shards / 1e6
    lines = [
        ["model", f"{results.shards} full shards, {megabytes:.1f} MB; SGD, one worker, one server, 4 partitions"],
        ["updates", str(results.updates)],
        ["an update, median", f"{results.update_ms:.0f} ms"],
        ["the same bytes over two raw hops, median", f"{results.raw_ms:.0f} ms"],
        ["machine", f"{conditions['system']} {conditions['machine']}, {conditions['cores']} cores"],
        ["load of the machine before", f"{conditions['load_before']:.1f}"],
        ["Python", conditions["python"]],
        *([name, number] for name, number in sorted(conditions["versions"].items())),
        ["commit", conditions["commit"]],
    ]
    return _table(["", ""], lines)


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _table(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    ruled = [headings, ["---"] * len(headings), *lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in ruled)
