"""The recording of a run in the README: what a real `make demo` printed, drawn as a terminal.

`python -m tests.site.recording < OUTPUT` keeps the output in docs/demo.txt and draws docs/demo.svg. Times in it are
those of that run.
"""

import io
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

DOCS = Path(__file__).resolve().parents[2] / "docs"
COLUMNS = 124
THEME = TerminalTheme((27, 33, 41), (226, 232, 240), [(27, 33, 41), (0, 0, 0), (77, 182, 172), (245, 158, 11)])
FRAME = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>make demo: Kafka starts, three workers train, two servers apply, and a summary is printed</title>
<style>
text {{ font-family: system-ui, sans-serif; }}
.{unique_id}-matrix text {{ font: {char_height}px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""
"""Of rich, but without a font from elsewhere."""


def draw(output: str) -> str:
    """Draw what a command printed, with the command itself as the first line."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in output.splitlines():
        console.print(Text(line, style="bold yellow" if line.startswith("$") else _style(line)))
    return console.export_svg(title="make demo", theme=THEME, code_format=FRAME, unique_id="demo")


def _style(line: str) -> str:
    return "bold green" if " ended at version " in line else "bold" if line.startswith("digits  version") else ""


def main() -> None:
    """Keep what a run printed, and draw it."""
    output = sys.stdin.read()
    (DOCS / "demo.txt").write_text(output)
    (DOCS / "demo.svg").write_text(draw(output))


if __name__ == "__main__":
    main()
