"""The site of docs/: it builds with every link checked, loads nothing from a network, and its pictures are current."""

import html
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import driftline
import driftline.testing
from tests.site.drawings import DRAWINGS
from tests.site.recording import draw
from tests.support import ROOT
from tests.unit.docs.test_words import found

DOCS = ROOT / "docs"
LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=[\"']?(https?:)?//[^>]*>")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does, elsewhere."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        (sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder),
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_built_and_found_by_search(site: Path) -> None:
    """A page that is not in the navigation, and a link that leads nowhere, end the build."""
    index = (site / "search" / "search_index.json").read_text()
    for page in DOCS.glob("**/*.md"):
        place = page.relative_to(DOCS).with_suffix(".html")
        assert (site / place).is_file()
        assert f'"location":"{place.as_posix()}"' in index


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    """No font, style or script of another host, so the site works without a network."""
    loaded = {found[0] for page in site.glob("**/*.html") for found in LOADED.finditer(page.read_text())}
    assert {one for one in loaded if 'rel="canonical"' not in one} == set()
    styles = "".join(one.read_text() for one in site.glob("**/*.css"))
    assert re.findall(r"url\([\"']?https?:|@import[^;]*https?:", styles) == []


def test_the_reference_has_every_public_name(site: Path) -> None:
    """With its own heading."""
    page = (site / "reference.html").read_text()
    names = {*driftline.__all__, *driftline.testing.__all__} - {"__version__"}
    missing = [name for name in sorted(names) if f'.{name}"' not in page]
    assert missing == []


def test_the_docstrings_of_public_names_are_in_plain_english(site: Path) -> None:
    """As the reference shows them."""
    page = re.search(r"<article.*</article", (site / "reference.html").read_text(), re.DOTALL)
    assert page is not None
    prose = re.sub(r"<(pre|code)\b.*?</\1>|<[^>]+>", " ", page[0], flags=re.DOTALL)
    assert list(found(html.unescape(prose))) == []


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_is_what_its_program_makes(name: str) -> None:
    """`python -m tests.site.drawings` writes them."""
    assert (DOCS / name).read_text() == DRAWINGS[name]()


def test_the_recording_shows_the_output_that_is_kept() -> None:
    """`python -m tests.site.recording < OUTPUT` makes another one."""
    assert (DOCS / "demo.svg").read_text() == draw((DOCS / "demo.txt").read_text())
