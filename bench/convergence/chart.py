"""A drawing of loss by time beside a slow worker, as SVG: plain text, so that a change of it can be read."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.convergence.looking import loss_at_second
from bench.convergence.results import Results, Row
from bench.convergence.trials import GRID_S, SECONDS, SLOWNESS, STUDIES

DRAWING = Path(__file__).resolve().parents[2] / "docs" / "convergence.svg"
LINES = {
    "sync": "#000000",
    "ssp 1": "#999999",
    "ssp 4": "#0072b2",
    "ssp 4, drop 1": "#56b4e9",
    "sync, clock": "#009e73",
    "buffered 2": "#cc79a7",
    "async": "#d55e00",
    "async, none, rate/4": "#e69f00",
}
"""Ways that are drawn, with colours that most people can tell apart (Okabe and Ito, 2008)."""

WIDTH, HEIGHT = 900, 430
LEFT, TOP, PANEL_WIDTH, PANEL_HEIGHT, GAP = 50, 34, 300, 330, 50
LEGEND = LEFT + 2 * PANEL_WIDTH + GAP + 14
TICKS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0)


@dataclass(frozen=True, slots=True)
class _Panel:
    """Where numbers are in one part of the drawing: seconds to the right, loss upwards, each step a factor."""

    left: float
    low: float
    high: float

    def x(self, seconds: float) -> float:
        return self.left + PANEL_WIDTH * seconds / SECONDS

    def y(self, loss: float) -> float:
        share = math.log(loss / self.low) / math.log(self.high / self.low)
        return TOP + PANEL_HEIGHT * (1 - share)


def drawn(results: Results) -> str:
    """Return the drawing: a panel a task, and in it a line a way of training, the median over seeds."""
    parts = []
    for number, name in enumerate(STUDIES):
        rows = [row for row in results.rows if (row.task, row.slowness) == (name, SLOWNESS)]
        parts += _panel(LEFT + number * (PANEL_WIDTH + GAP), name, rows)
    body = "\n".join([*parts, *_legend()])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12">\n<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def _panel(left: float, name: str, rows: Sequence[Row]) -> list[str]:
    curves = {way: _medians([row for row in rows if row.way == way]) for way in LINES}
    losses = [loss for curve in curves.values() for _, loss in curve]
    panel = _Panel(left, min(losses) / 1.1, max(losses) * 1.1)
    return [
        f'<text x="{left}" y="{TOP - 12}" font-weight="bold">{name}, test loss by seconds</text>',
        *_axes(panel),
        *(_line(panel, curve, LINES[way]) for way, curve in curves.items() if curve),
    ]


def _medians(rows: Sequence[Row]) -> list[tuple[float, float]]:
    """Return (seconds, loss), from where most runs have been measured on."""
    found = []
    for number in range(1, round(SECONDS / GRID_S) + 1):
        losses = [loss_at_second(row, GRID_S * number) for row in rows]
        known = [loss for loss in losses if loss is not None]
        if 2 * len(known) > len(rows):
            found.append((GRID_S * number, statistics.median(known)))
    return found


def _axes(panel: _Panel) -> list[str]:
    bottom, right = TOP + PANEL_HEIGHT, panel.left + PANEL_WIDTH
    lines = [f'<path d="M{panel.left},{TOP}V{bottom}H{right}" fill="none" stroke="#555555"/>']
    for loss in TICKS:
        if panel.low < loss < panel.high:
            y = panel.y(loss)
            lines.append(f'<path d="M{panel.left},{y:.1f}H{right}" stroke="#dddddd"/>')
            lines.append(f'<text x="{panel.left - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#555555">{loss:g}</text>')
    for seconds in range(0, round(SECONDS) + 1, 2):
        x = panel.x(seconds)
        lines.append(f'<path d="M{x:.1f},{bottom}v4" stroke="#555555"/>')
        lines.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle" fill="#555555">{seconds}</text>')
    return lines


def _line(panel: _Panel, curve: Sequence[tuple[float, float]], colour: str) -> str:
    points = " ".join(f"{panel.x(seconds):.1f},{panel.y(loss):.1f}" for seconds, loss in curve)
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'


def _legend() -> list[str]:
    lines = []
    for number, (way, colour) in enumerate(LINES.items()):
        y = TOP + 20 + 22 * number
        lines.append(f'<path d="M{LEGEND},{y}h22" stroke="{colour}" stroke-width="3"/>')
        lines.append(f'<text x="{LEGEND + 28}" y="{y + 4}">{way}</text>')
    return lines
