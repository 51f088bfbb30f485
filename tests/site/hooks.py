"""Hooks of MkDocs: pages and sources outside docs/ become pages of the site, and links to them are followed.

On a forge, a page links to files beside docs/ (``../Dockerfile``). A site has pages only, so each such file gets one,
and the link check of ``mkdocs build --strict`` covers these links, too.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
PAGES = {"README.md": "readme.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages beside docs/: their places in the site."""

UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n"
"""Head of a page that search leaves out, because it repeats others."""

_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")
_LANGUAGES = {".py": "python", ".yml": "yaml", ".toml": "toml", ".json": "json", ".avsc": "json"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List every note of docs/decisions/ under its own title."""
    notes = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    titles = {note: note.read_text().partition("\n")[0].removeprefix("# ") for note in notes}
    for section in config.nav or ():
        if "Decisions" in section:
            section["Decisions"] = [{title: f"decisions/{note.name}"} for note, title in titles.items()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that docs/ links to and does not hold."""
    linked = {target for path, place in _pages() for target in _targets(path, place)}
    for name, place in PAGES.items():
        head = UNSEARCHED if name == "README.md" else ""
        files.append(File.generated(config, place, content=head + (ROOT / name).read_text()))
    for target in sorted(linked - PAGES.keys()):
        files.append(File.generated(config, _place(target), content=_listing(target)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - by name
    """Lead links out of docs/ to the pages of the site that stand for their targets."""
    origin = next((name for name, place in PAGES.items() if place == page.file.src_uri), f"docs/{page.file.src_uri}")
    here = posixpath.dirname(page.file.src_uri)

    def follow(link: re.Match[str]) -> str:
        target = _target(link[1], origin)
        place = target.removeprefix("docs/") if target.startswith("docs/") else PAGES.get(target, _place(target))
        return f"]({posixpath.relpath(place, here or '.')}{link[2] or ''})"

    parts = re.split(f"({_CODE.pattern})", markdown, flags=_CODE.flags)
    return "".join(part if _CODE.fullmatch(part) else _LINK.sub(follow, part) for part in parts)


def _pages() -> Iterator[tuple[str, str]]:
    """Yield each page of the repository with its text."""
    for path in (*(ROOT / name for name in PAGES), *sorted((ROOT / "docs").glob("**/*.md"))):
        yield path.relative_to(ROOT).as_posix(), _CODE.sub("", path.read_text())


def _targets(path: str, text: str) -> Iterator[str]:
    """Yield what a page links to outside docs/."""
    for link in _LINK.findall(text):
        target = _target(link[0], path)
        if not target.startswith("docs/") and (ROOT / target).exists():
            yield target


def _target(link: str, origin: str) -> str:
    """Return the path, from the root of the repository, of a link that stands in a page."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), link))


def _place(target: str) -> str:
    """Return the place in the site of a file that is no page."""
    return f"source/{target}.md"


def _listing(target: str) -> str:
    """Show a file, or the names in a folder."""
    path = ROOT / target
    head = f"{UNSEARCHED}# `{target}`\n\n"
    if path.is_dir():
        names = sorted(one.name for one in path.iterdir() if not one.name.startswith(("__pycache__", ".")))
        return head + "".join(f"- `{name}`\n" for name in names)
    fence = "`````"
    return f"{head}{fence}{_LANGUAGES.get(path.suffix, 'text')}\n{path.read_text()}\n{fence}\n"
