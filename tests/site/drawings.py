"""The pictures of the pages, as SVG: plain text, system fonts, light and dark.

`python -m tests.site.drawings` writes them into docs/; a test asks that they are what this makes.
"""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
STYLE = """
svg { font: 14px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif }
.paper { fill: #ffffff } .box { fill: #f1f5f9; stroke: #64748b } .topic { fill: #e0f2f1; stroke: #00796b }
.ledger { fill: #00796b; stroke: #00796b } .ink { fill: #1e293b } .soft { fill: #475569; font-size: 12.5px }
.on { fill: #ffffff } .on.small { font-size: 12.5px }
.line { fill: none; stroke: #475569; stroke-width: 1.5 } .head { fill: #475569 }
.a { fill: #94a3b8 } .b { fill: #00796b } .c { fill: #4fa79c } .d { fill: #f59e0b } .bold { font-weight: 600 }
@media (prefers-color-scheme: dark) {
  .paper { fill: #1b2129 } .box { fill: #2a323d; stroke: #94a3b8 } .topic { fill: #143c39; stroke: #4db6ac }
  .ink { fill: #e2e8f0 } .soft { fill: #b6c2d1 } .line { stroke: #b6c2d1 } .head { fill: #b6c2d1 }
  .a { fill: #64748b } .b { fill: #26a69a } .c { fill: #4f8f89 }
}
"""
TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path class="head" d="M0,0 8,4 0,8z"/></marker></defs>'
)


def svg(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    """Put a drawing together: its paper, its style and what it shows, which ``title`` says in words."""
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            TIP,
            f'<rect class="paper" width="{width}" height="{height}" rx="10"/>',
            *parts,
            "</svg>\n",
        )
    )


def text(x: float, y: float, words: str, kind: str = "ink", anchor: str = "middle") -> str:
    """Write a line."""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str = "box") -> str:
    """Draw a rectangle."""
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"/>'


def arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    """Draw an arrow from the first point to the second."""
    return f'<path class="line" marker-end="url(#tip)" d="M{x1:g},{y1:g}L{x2:g},{y2:g}"/>'


LEFT, TOPICS, RIGHT = (20, 150), (340, 640), (830, 980)
ROWS = {"deltas": 84, "events": 168, "ledger": 252, "parameters": 336, "snapshots": 420}
HELD = {
    "deltas": "gradients, a piece for each shard",
    "events": "what processes report",
    "ledger": "every decision, in order",
    "parameters": "versions of the model",
    "snapshots": "state of the shards",
}


def data_flow() -> str:
    """Draw who writes what, and who reads it."""
    parts = [
        *_column(LEFT, 50, 340, "workers", ("compute gradients",)),
        *_column(RIGHT, 50, 424, "servers", ("hold the shards",)),
        box(RIGHT[0] + 10, 146, RIGHT[1] - RIGHT[0] - 20, 130, "box"),
        text(905, 196, "coordinator", "ink bold"),
        text(905, 216, "one of the servers", "soft"),
        text(490, 32, "Kafka: five topics of a run", "soft"),
    ]
    for name, y in ROWS.items():
        on = "on" if name == "ledger" else "ink"
        parts += [
            box(TOPICS[0], y - 28, TOPICS[1] - TOPICS[0], 56, "ledger" if name == "ledger" else "topic"),
            text(490, y - 4, name, f"{on} bold"),
            text(490, y + 15, HELD[name], "on small" if name == "ledger" else "soft"),
        ]
    parts += [
        *_there(LEFT[1], TOPICS[0], ROWS["deltas"], "1  deltas"),
        *_there(TOPICS[1], RIGHT[0], ROWS["deltas"], "checks each delta"),
        *_there(LEFT[1], TOPICS[0], ROWS["events"], "2  contribution"),
        *_there(RIGHT[0], TOPICS[1], ROWS["events"] - 8, "3  receipts"),
        *_there(TOPICS[1], RIGHT[0] + 10, ROWS["events"] + 14, "", 0),
        *_there(TOPICS[0], LEFT[1], ROWS["ledger"], "what was decided"),
        *_there(RIGHT[0] + 10, TOPICS[1], ROWS["ledger"] - 8, "4  Version"),
        *_there(TOPICS[1], RIGHT[0], ROWS["ledger"] + 14, "read back, then applied", 18),
        *_there(RIGHT[0], TOPICS[1], ROWS["parameters"], "5  new parameters"),
        *_there(TOPICS[0], LEFT[1], ROWS["parameters"], "6  the next version"),
        *_there(RIGHT[0], TOPICS[1], ROWS["snapshots"] - 8, "every 100 versions"),
        *_there(TOPICS[1], RIGHT[0], ROWS["snapshots"] + 14, "after a crash", 18),
    ]
    return svg(1000, 500, "Workers write deltas, servers receipts, the coordinator the ledger", parts)


def _column(at: tuple[int, int], top: int, height: int, name: str, lines: Sequence[str]) -> list[str]:
    middle = (at[0] + at[1]) / 2
    words = [text(middle, top + 44 + 18 * row, line, "soft") for row, line in enumerate(lines)]
    return [box(at[0], top, at[1] - at[0], height), text(middle, top + 24, name, "ink bold"), *words]


def _there(start: float, end: float, y: float, words: str, below: float = -7) -> list[str]:
    """Draw a horizontal arrow with its words above it, or as far below as said."""
    gap = 5 if end > start else -5
    label = [text((start + end) / 2, y + below, words, "soft")] if words else []
    return [arrow(start + gap, y, end - gap, y), *label]


LIFE = (
    (
        "computed",
        ("a worker has a", "gradient on an", "earlier version"),
        ("worker",),
        ("its samples go", "back to the pool"),
    ),
    (
        "in the log",
        ("its deltas and the", "contribution are", "acknowledged"),
        ("worker",),
        ("it still counts,", "once or never"),
    ),
    ("whole", ("receipts cover", "every shard"), ("servers",), ("the next owner", "reads the deltas")),
    (
        "decided",
        ("`Version` is in the", "ledger and was", "read back"),
        ("coordinator",),
        ("the next one hears", "all of it again"),
    ),
    ("applied", ("each shard has", "made the step"), ("servers",), ("the next owner", "applies it again")),
    ("published", ("all shards are in", "`parameters`"), ("servers",), ("they are", "published again")),
    (
        "proven",
        ("the ledger holds", "the digest of", "the state"),
        ("coordinator",),
        ("the digest is", "reported again"),
    ),
)
"""States of a version: name, what is true then, who brings it there, and what happens if that process dies before."""


def version_life() -> str:
    """Draw the states that a version passes through, and what a death does in each."""
    width, gap = 128, 14
    parts = [
        text(20, 30, "what is true", "soft", "start"),
        text(20, 192, "who brings it there", "soft", "start"),
        text(20, 256, "if that process dies before", "soft", "start"),
    ]
    for index, (name, true, who, dies) in enumerate(LIFE):
        x = 20 + index * (width + gap)
        middle = x + width / 2
        decided = name == "decided"
        parts += [
            box(x, 42, width, 124, "ledger" if decided else "topic" if index < 3 else "box"),
            text(middle, 68, name, "on bold" if decided else "ink bold"),
            *(
                text(middle, 94 + 19 * row, line.replace("`", ""), "on small" if decided else "soft")
                for row, line in enumerate(true)
            ),
            *(text(middle, 214 + 18 * row, line, "ink") for row, line in enumerate(who)),
            *(text(middle, 280 + 18 * row, line, "soft") for row, line in enumerate(dies)),
        ]
        if index:
            parts.append(arrow(x - gap - 1, 104, x + 2, 104))
    return svg(1018, 322, "A version: computed, in the log, whole, decided, applied, published, proven", parts)


PACES = (("ada", 4, 3, 1, 0), ("bob", 4, 2, 0, 0), ("eve", 5, 1, 0, 1))
"""Workers: entry version, settled clocks, pending clocks, raises."""


def pace() -> str:
    """Draw what the pace of a worker is made of, beside the head version."""
    unit, left = 78, 90
    head = 7
    parts = []
    for row, (name, entry, settled, pending, raises) in enumerate(PACES):
        x, y = float(left), 56 + 58 * row
        parts.append(text(left - 14, y + 22, name, "ink bold", "end"))
        for count, kind in ((entry, "a"), (raises, "d"), (settled, "b"), (pending, "c")):
            if count:
                parts += [
                    box(x + 1, y, unit * count - 2, 32, kind),
                    text(x + unit * count / 2, y + 21, f"{count}", "on bold"),
                ]
                x += unit * count
        known = entry + raises + settled
        parts.append(text(740, y + 21, f"pace {known + pending}, settled pace {known}", "ink", "start"))
    x = left + unit * head
    parts += [
        f'<path class="line" stroke-dasharray="5 4" d="M{x},40V226"/>',
        text(x, 30, f"head version {head}", "ink bold"),
    ]
    for index, (kind, words) in enumerate(
        (
            ("a", "entry: the head version when it joined"),
            ("d", "raises"),
            ("b", "settled clocks"),
            ("c", "pending clocks"),
        )
    ):
        x = (90, 400, 510, 680)[index]
        parts += [box(x, 248, 16, 16, kind), text(x + 24, 261, words, "soft", "start")]
    return svg(1000, 286, "The pace of a worker: entry version, raises, settled and pending clocks", parts)


DRAWINGS = {"data-flow.svg": data_flow, "version-life.svg": version_life, "pace.svg": pace}


def main() -> None:
    """Write all of them."""
    for name, draw in DRAWINGS.items():
        (DOCS / name).write_text(draw())


if __name__ == "__main__":
    main()
