"""What the docs say of settings: the reference file, and the tables of docs/configuration.md."""

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from driftline.config.keys import SECTIONS, keys_in
from driftline.schemas.run.setting import Key, Kind

_WIDTH = 100
_BEGIN, _END = "<!-- settings: `make settings` writes these tables -->\n", "\n<!-- end of settings -->"

_HEAD = """\
# Settings of driftline. Every line that begins with "#" and a name is a setting at its default, or an example if it
# has none: remove the "#" to set it. An option on the command line beats the environment, which beats this file.
"""


def reference() -> str:
    """Return the reference file as text; with the settings uncommented it can be read."""
    return "".join([_HEAD, *(_section(section, what) for section, (_, what) in SECTIONS.items())])


def tables() -> str:
    """Return one table in Markdown for each section."""
    return "\n".join(line for section, (_, what) in SECTIONS.items() for line in _table(section, what))


def _section(section: str, what: str) -> str:
    lines = [line for key in keys_in(section) for line in _entry(key)]
    return "\n".join(["", *_comment(what), f"[{section}]", *lines, ""])


def _entry(key: Key) -> Iterator[str]:
    yield ""
    yield from _comment(f"{key.setting.help} {_default(key)}".rstrip())
    yield from _comment(f"{key.option or key.metavar}, {key.variable}")
    default = key.default or ""
    quoted = default if key.kind in (Kind.WHOLE, Kind.REAL) else f'"{default}"'
    yield f"#{key.name} = {key.setting.example or quoted}"


def _default(key: Key) -> str:
    return f"Default: {key.setting.inferred}." if key.setting.inferred else "" if key.default else "No default."


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _table(section: str, what: str) -> Iterator[str]:
    yield from ("", f"### `[{section}]`", "", what, "", "| setting | option, variable | default | effect |")
    yield "|---|---|---|---|"
    for key in keys_in(section):
        option = f"`{key.option}`" if key.option else f"`{key.metavar}` (an argument)"
        default = key.setting.inferred or (f"`{key.default}`" if key.default else "none")
        yield f"| `{key.path}` | {option}<br>`{key.variable}` | {default} | {key.setting.help} |"


def write(docs: Path) -> None:
    """Write the reference file, and the tables between their marks, into the folder of the docs."""
    (docs / "driftline.reference.toml").write_text(reference(), encoding="utf-8")
    page = docs / "configuration.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(_BEGIN)
    page.write_text(f"{before}{_BEGIN}{tables()}{_END}{rest.partition(_END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
