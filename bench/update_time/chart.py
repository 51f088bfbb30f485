"""A drawing of one update, as SVG: when its records are in the log, and what the processes compute meanwhile."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.update_time.page import RECORDS
from bench.update_time.results import PROCESSES, Results
from bench.update_time.samples import KINDS

DRAWING = Path(__file__).resolve().parents[2] / "docs" / "where-the-time-goes.svg"
COLOURS = dict(
    zip(KINDS, ("#0072b2", "#56b4e9", "#009e73", "#f0e442", "#cc79a7", "#d55e00", "#e69f00", "#999999"), strict=True)
)
"""By kind of work; most people can tell them apart (Okabe and Ito, 2008)."""

WIDTH, HEIGHT = 900, 376
LEFT, SPAN = 190, 690
LANES_TOP, LANE = 52, 26
BARS_TOP, BAR = 238, 34


def drawn(results: Results) -> str:
    """Return the drawing."""
    body = "\n".join([*_lanes(results), *_bars(results), *_legend()])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12">\n<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def _scale(results: Results) -> float:
    """Return the width of a millisecond: the same in both halves, which stand below one axis."""
    last_ms = max(max(times) for times in results.log_ms.values())
    return SPAN / max(last_ms, *(sum(found.values()) for found in results.computing_ms.values()))


def _lanes(results: Results) -> Iterator[str]:
    scale = _scale(results)
    last_ms = SPAN / scale
    yield '<text x="10" y="24" font-weight="bold">In the log, ms after the first delta (a dot is a record)</text>'
    bottom = LANES_TOP + LANE * len(RECORDS)
    for tick in range(0, int(last_ms) + 1, _step(last_ms)):
        x = LEFT + scale * tick
        yield f'<path d="M{x:.1f},{LANES_TOP - 12}V{bottom - 8}" stroke="#dddddd"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 8}" text-anchor="middle" fill="#555555">{tick}</text>'
    for number, (kind, what) in enumerate(RECORDS.items()):
        y = LANES_TOP + LANE * number
        yield f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{what}</text>'
        for time_ms in results.log_ms[kind]:
            yield f'<circle cx="{LEFT + scale * time_ms:.1f}" cy="{y}" r="4" fill="#0072b2" opacity="0.7"/>'


def _bars(results: Results) -> Iterator[str]:
    title = "Computing for one update, ms of a core (to the same scale)"
    yield f'<text x="10" y="{BARS_TOP - 16}" font-weight="bold">{title}</text>'
    for number, process in enumerate(PROCESSES):
        found = results.computing_ms[process]
        y = BARS_TOP + BAR * number
        yield f'<text x="{LEFT - 12}" y="{y + 16}" text-anchor="end">{process}, {sum(found.values()):.0f} ms</text>'
        yield from _bar(y, found, _scale(results))


def _bar(y: int, found: Mapping[str, float], scale: float) -> Iterator[str]:
    x = float(LEFT)
    for kind in KINDS:
        width = scale * found.get(kind, 0.0)
        if width:
            yield f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="24" fill="{COLOURS[kind]}"/>'
        x += width


def _legend() -> Iterator[str]:
    y, x = BARS_TOP + 3 * BAR + 24, 30
    for kind, colour in COLOURS.items():
        yield f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{colour}"/>'
        yield f'<text x="{x + 17}" y="{y}">{kind}</text>'
        x += 36 + 7 * len(kind)


def _step(last_ms: float) -> int:
    return next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**6) if last_ms / step <= 12)
