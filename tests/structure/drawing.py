"""The drawing of rooms and layers, as SVG: plain text, so that a change of it can be read."""

from collections.abc import Iterator, Mapping
from html import escape
from textwrap import wrap

from tests.structure.rooms import ROOT, arrows, layers, modules, purpose, rooms, shortest

DRAWING = ROOT / "docs" / "rooms.svg"

WIDTH = 980
BOX, GAP, TOP = 54, 30, 56
LEFT, SPAN = 60, 880
LETTER = 6.1
"""Width of a letter of the small text, about."""

STYLE = """
<style>
  text { font-family: system-ui, sans-serif; font-size: 12px; fill: #24292f }
  .name { font-weight: 600; font-size: 14px } .small { fill: #57606a; font-size: 11px }
  .room { fill: #f6f8fa; stroke: #8c959f } .arrow { stroke: #8c959f; fill: none }
  .page { fill: #ffffff }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .small { fill: #9da7b3 } .room { fill: #21262d; stroke: #6e7681 }
    .arrow { stroke: #6e7681 } .page { fill: #0d1117 }
  }
</style>"""

Box = tuple[float, float, float]
"""Left edge, top edge and width."""


def drawn() -> str:
    """Return the drawing of the package as it stands."""
    boxes = dict(_placed())
    height = TOP + len(layers()) * (BOX + GAP)
    body = "\n".join([*_arrows(boxes), *_rooms(boxes)])
    title = '<text x="20" y="28" class="name">Rooms of driftline: an arrow is an import, all of them point down</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="Rooms of driftline and the imports between them">{STYLE}\n'
        f'<rect width="{WIDTH}" height="{height}" class="page"/>\n{title}\n{body}\n</svg>\n'
    )


def _placed() -> Iterator[tuple[str, Box]]:
    """Yield where each room of each layer stands."""
    for row, names in enumerate(layers()):
        width = (SPAN - GAP * (len(names) - 1)) / len(names)
        for column, name in enumerate(names):
            yield name, (LEFT + column * (width + GAP), TOP + row * (BOX + GAP), width)


def _rooms(boxes: Mapping[str, Box]) -> Iterator[str]:
    found = [room.name for room in rooms()]
    for name, (x, y, width) in boxes.items():
        inside = sorted(one.removeprefix(f"{name}.") for one in found if one.startswith(f"{name}."))
        yield f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{BOX}" rx="6" class="room"/>'
        yield f'<text x="{x + 12:.0f}" y="{y + 20}" class="name">{name}{_chips(inside)}</text>'
        yield f'<text x="{x + 12:.0f}" y="{y + 40}" class="small">{escape(_purpose(name, width))}</text>'


def _chips(inside: list[str]) -> str:
    return f'<tspan class="small" font-weight="400" dx="10">{" · ".join(inside)}</tspan>' if inside else ""


def _purpose(name: str, width: float) -> str:
    text = purpose(modules()[f"driftline.{name}"]).replace("``", "").replace("`", "")
    lines = wrap(text, int((width - 24) / LETTER))
    return lines[0] + (" …" if len(lines) > 1 else "")


def _arrows(boxes: Mapping[str, Box]) -> Iterator[str]:
    """Yield the arrows that no longer way replaces: next layers straight, others along the left edge."""
    graph = {name: targets & boxes.keys() for name, targets in arrows().items() if name in boxes}
    for origin, targets in sorted(shortest(graph).items()):
        x, y, width = boxes[origin]
        for target in sorted(targets):
            to_x, to_y, to_width = boxes[target]
            start, end = x + width / 2, to_x + to_width / 2
            if to_y - y <= BOX + GAP:
                yield f'<path d="M{start:.0f},{y + BOX}L{end:.0f},{to_y - 2}" class="arrow" {_HEAD}/>'
                continue
            side = LEFT - 14 - 6 * (round((to_y - y) / (BOX + GAP)) - 2)
            out = f"M{x:.0f},{y + BOX / 2:.0f}" if x == LEFT else f"M{start:.0f},{y + BOX}v{GAP / 3:.0f}"
            down = f"V{to_y + BOX / 2:.0f}H{to_x - 2:.0f}" if to_x == LEFT else f"V{to_y - 12}H{end:.0f}V{to_y - 2}"
            yield f'<path d="{out}H{side}{down}" class="arrow" {_HEAD}/>'
    yield (
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0L8,4L0,8z" fill="#8c959f"/></marker></defs>'
    )


_HEAD = 'marker-end="url(#head)"'
