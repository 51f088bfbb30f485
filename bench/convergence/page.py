"""The page about convergence: its tables are made of the results, everything else on it is written by hand.

A table stands between ``<!-- table NAME -->`` and ``<!-- end -->``.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from bench.convergence.looking import (
    Spread,
    loss_at_samples,
    loss_at_second,
    loss_at_version,
    mean_staleness,
    seconds_to,
    spread,
)
from bench.convergence.results import Results, Row
from bench.convergence.trials import SECONDS, SLOWNESS, SMALL_WAYS, STUDIES, WAYS, Study, Way

PAGE = Path(__file__).resolve().parents[2] / "docs" / "convergence.md"
MARKER = re.compile(r"(?<=<!-- table )(?P<name>[^>]+?)(?P<end> -->\n).*?(?=<!-- end -->)", re.DOTALL)
NOTHING = "—"

Column: TypeAlias = tuple[str, Callable[[Sequence[Row]], str]]
"""A heading, and what stands under it for the runs of one way."""


def written(page: str, results: Results) -> str:
    """Return the page with all its tables made again.

    Raises:
        KeyError: the page names a table that there is not.
    """
    made = tables(results)
    return MARKER.sub(lambda found: f"{found['name']}{found['end']}\n{made[found['name']]}\n", page)


def tables(results: Results) -> Mapping[str, str]:
    """Return all tables by name, in Markdown."""
    made = {"conditions": _conditions(results), "rates": _rates(results.rows)}
    for study in STUDIES.values():
        for slowness in (1, SLOWNESS):
            rows = [row for row in results.rows if (row.task, row.slowness) == (study.name, slowness)]
            made[f"{study.name} {slowness}x loss"] = _by_way(_loss_columns(study), rows)
            made[f"{study.name} {slowness}x pace"] = _by_way(_pace_columns(), rows)
    return made


def _by_way(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    lines = []
    for way in WAYS:
        mine = [row for row in rows if row.way == way.name]
        if mine:
            lines.append([label(way), *(cell(mine) for _, cell in columns)])
    return _table(["", *(heading for heading, _ in columns)], lines)


def _table(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    ruled = [headings, ["---"] * len(headings), *lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in ruled)


def label(way: Way) -> str:
    """Return a way of training as the tables call it."""
    return f"`{way.options}`" + (f", {way.note}" if way.note else "")


# -- what is in the tables ---------------------------------------------------------------------------------------------


def _loss_columns(study: Study) -> list[Column]:
    return [
        *((f"{mark} versions", _losses(loss_at_version, mark)) for mark in (25, 100)),
        *((f"{mark:,} samples", _losses(loss_at_samples, mark)) for mark in (3_000, 6_000)),
        *((f"{mark:g} s", _losses(loss_at_second, mark)) for mark in (SECONDS / 2, SECONDS)),
        (f"seconds to {study.target:g}", lambda rows: _seconds(rows, study.target)),
        (f"accuracy at {SECONDS:g} s", lambda rows: _numbers((row.accuracy for row in rows), 3)),
    ]


def _losses(look: Callable[[Row, float], float | None], mark: float) -> Callable[[Sequence[Row]], str]:
    return lambda rows: _numbers((look(row, mark) for row in rows), 2)


def _seconds(rows: Sequence[Row], target: float) -> str:
    return _numbers((seconds_to(row, target) for row in rows), 1)


def _pace_columns() -> list[Column]:
    return [
        ("versions", lambda rows: _numbers((row.versions for row in rows), 0)),
        ("samples", lambda rows: _numbers((row.samples for row in rows), 0)),
        ("staleness, mean", lambda rows: _numbers((mean_staleness(row) for row in rows), 1)),
        ("most", lambda rows: _numbers((max(row.staleness, default=None) for row in rows), 0)),
        ("rejected", lambda rows: _numbers((row.rejected for row in rows), 0)),
        ("waiting, first three", lambda rows: _percent(row.waiting[0] for row in rows)),
        ("waiting, fourth", lambda rows: _percent(row.waiting[1] for row in rows)),
    ]


def _numbers(values: Iterable[float | None], digits: int) -> str:
    return _cell(spread(values), f",.{digits}f")


def _percent(values: Iterable[float]) -> str:
    return _cell(spread(values), ".0%")


def _cell(found: Spread | None, form: str) -> str:
    if found is None:
        return NOTHING
    median, least, most = (format(value, form) for value in (found.median, found.least, found.most))
    text = median if least == most else f"{median} ({least}-{most})"
    return text if found.count == found.runs else f"{text}, {found.count} of {found.runs}"


def _rates(rows: Sequence[Row]) -> str:
    study = STUDIES["fashion"]
    late = {way.options for way in SMALL_WAYS}
    ways = [way for way in (*WAYS, *SMALL_WAYS) if way.options in late or way.name == "sync"]
    lines = []
    for way in sorted(ways, key=lambda one: ([two.options for two in WAYS].index(one.options), -one.rate)):
        mine = [row for row in rows if (row.task, row.way, row.slowness) == (study.name, way.name, 1)]
        if mine:
            lines.append([f"`{way.options}`", f"{study.rate * way.rate:.2g}", *_ends(mine)])
    headings = ["", "rate", f"loss at {SECONDS / 2:g} s", f"at {SECONDS:g} s", "highest on the way", "accuracy"]
    return _table(headings, lines)


def _ends(rows: Sequence[Row]) -> list[str]:
    return [
        *(_numbers((loss_at_second(row, mark) for row in rows), 2) for mark in (SECONDS / 2, SECONDS)),
        _numbers((max(one.loss for one in row.curve) for row in rows), 2),
        _numbers((row.accuracy for row in rows), 3),
    ]


def _conditions(results: Results) -> str:
    rows, first = results.rows, results.conditions[0]
    loads = [row.load for row in rows]
    gradients = [row.gradient_s for row in rows if "clock" not in row.way]
    versions = {name: number for one in results.conditions for name, number in one["versions"].items()}
    lines = [
        ["runs", str(len(rows))],
        ["seeds", str(len({row.seed for row in rows}))],
        ["machine", f"{first['system']} {first['machine']}, {first['cores']} cores"],
        ["load of the machine when a run began", _cell(spread(loads), ".0f")],
        [
            "a fast worker's gradient, pause and all, without a clock",
            f"{_cell(spread(1000 * one for one in gradients), '.0f')} ms",
        ],
        ["Python", first["python"]],
        *([name, number] for name, number in sorted(versions.items())),
        ["commit", ", ".join(sorted({one["commit"] for one in results.conditions}))],
    ]
    return _table(["", ""], lines)
