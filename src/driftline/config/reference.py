"""The reference file: every setting with what it is, its other names, and its default, commented out."""

import textwrap
from collections.abc import Iterator

from driftline.config.keys import KEYS, SECTIONS, Key, Kind

_WIDTH = 100

_HEAD = """\
# Settings of driftline. Every line that begins with "#" and a name is a setting at its default, or an example where
# there is none: remove the "#" to set it. An option on the command line beats the environment, that beats this file.
"""


def reference() -> str:
    """Return the file as text; with the settings uncommented it can be read."""
    return "".join([_HEAD, *(_section(section, what) for section, what in SECTIONS.items())])


def _section(section: str, what: str) -> str:
    keys = [key for key in KEYS if key.section == section]
    return "\n".join(["", *_comment(what), f"[{section}]", *(line for key in keys for line in _entry(key)), ""])


def _entry(key: Key) -> Iterator[str]:
    yield ""
    yield from _comment(key.help)
    yield from _comment(f"{key.option or key.metavar}, {key.variable}" + ("" if key.default else "; no default"))
    yield f"#{key.name} = {key.example or _default(key)}"


def _default(key: Key) -> str:
    default = key.default or ""
    return default if key.kind in (Kind.WHOLE, Kind.REAL) else f'"{default}"'


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
