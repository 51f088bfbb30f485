"""Documentation that cannot rot: what a page tells the reader to type exists, and every link leads somewhere."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from driftline.cli import COMMANDS, main
from tests.support import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FOLDERS = ("src", "schemas", "producers", "consumers", "training", "tests", "bench", "docs", "examples", "deploy")
READERS_OWN = {"tumours.py", "train.py"}
CHEAP = ({"--help"}, {"-h"}, {"--version"})


class Shown(NamedTuple):
    """A command as a page shows it, with the output printed under it."""

    page: str
    words: tuple[str, ...]
    output: str

    def __str__(self) -> str:
        """Name the test."""
        return f"{self.page}: {shlex.join(self.words)}"


def shown(text: str, page: str = "-") -> Iterator[Shown]:
    """Yield the commands of the console blocks of a page."""
    for language, block in FENCE.findall(text):
        if language == "console":
            for part in re.split(r"^\$ ", block.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
                line, _, output = part.partition("\n")
                yield Shown(page, tuple(shlex.split(line, comments=True)), output)


SHOWN = [command for page in PAGES for command in shown(page.read_text(), page.relative_to(ROOT).as_posix())]
OURS = [command for command in SHOWN if Path(command.words[0]).name == "driftline"]


def complaint(arguments: Sequence[str]) -> str | None:
    """Say what ``driftline ARGUMENTS`` would refuse before it does anything, or None."""
    command: click.Command = main
    parent = None
    rest = list(arguments)
    try:
        while True:
            parent = command.make_context(command.name, rest, parent=parent)
            if not isinstance(command, click.Group):
                return None
            _, found, rest = command.resolve_command(parent, [*parent._protected_args, *parent.args])
            if found is None:
                return f"no such command in {arguments}"
            command = found
    except click.exceptions.Exit:  # --help and --version end here
        return None
    except click.BadParameter as error:
        if error.param is not None and isinstance(error.param.type, click.Path | click.File):
            return None  # a page may name a file that only its reader has
        return error.format_message()
    except click.UsageError as error:
        return error.format_message()


@pytest.mark.parametrize("command", OURS, ids=str)
def test_a_documented_command_and_its_options_are_real(command: Shown) -> None:
    """Parsed by the command line itself, then not run."""
    assert complaint(command.words[1:]) is None


@pytest.mark.parametrize(
    "line", ["trian digits", "--loud broker", "broker strat", "broker start --no-such", "broker start x"]
)
def test_a_wrong_command_would_be_found(line: str) -> None:
    """The check above can fail."""
    assert complaint(line.split()) is not None


@pytest.mark.parametrize("command", [one for one in OURS if set(one.words[-1:]) in CHEAP], ids=str)
def test_a_cheap_documented_command_runs_and_prints_what_the_page_shows(command: Shown) -> None:
    """Help and version, by the installed command."""
    script = Path(sys.executable).parent / "driftline"
    done = subprocess.run((script, *command.words[1:]), capture_output=True, text=True, check=True)
    assert command.output.strip() in {"", done.stdout.strip()}


@pytest.mark.parametrize("command", [one for one in SHOWN if one.words[0] == "make"], ids=str)
def test_a_documented_make_target_is_real(command: Shown) -> None:
    """Targets stand in the Makefile with a line that says what they do."""
    targets = set(re.findall(r"^([\w-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    wanted = [word for word in command.words[1:] if "=" not in word]
    assert set(wanted) <= targets


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_readme(name: str) -> None:
    """A command that is not listed cannot be found."""
    assert f"`driftline {name}" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    """To a file of the checkout, and to a heading of it where one is named."""
    prose = FENCE.sub("", page.read_text())
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), f"{link} leads out of the checkout"
        assert not anchor or anchor in anchors(target), link


def anchors(page: Path) -> set[str]:
    """Name the headings of a page the way that a forge makes links of them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/**/*.md")), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_page_is_listed_in_the_index(page: Path) -> None:
    """docs/index.md is where a reader starts."""
    index = ROOT / "docs" / "index.md"
    assert page == index or f"]({page.relative_to(index.parent).as_posix()})" in index.read_text()


INVARIANTS = (ROOT / "docs" / "invariants.md").read_text()
BUILT, _, UNBUILT = INVARIANTS.partition("## Not built yet")


@pytest.mark.parametrize("number", range(1, 13))
def test_every_invariant_that_is_built_names_a_test(number: int) -> None:
    """Twelve sentences, each once: with a test, or among those that are not built yet."""
    parts = re.split(r"^\*\*(\d+)\. ", BUILT, flags=re.MULTILINE)
    built = dict(zip(map(int, parts[1::2]), parts[2::2], strict=True))
    assert (number in built) != (f"**{number}. " in UNBUILT)
    assert number not in built or "::test_" in built[number]


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(tests/[\w/]+\.py::\w+)`", INVARIANTS))))
def test_a_test_that_holds_an_invariant_is_there(path: str) -> None:
    """Under the name that the page says."""
    file, _, name = path.partition("::")
    assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE)


FILES = [path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
NAMED = re.compile(
    r"`((?:[\w.-]+/)*[\w-]+\.(?:py|avsc|svg)|(?:tests|docs|src|bench|examples|deploy|schemas)/[\w./-]*\w)`"
)


@pytest.mark.parametrize(
    "page", [one for one in PAGES if one.name != "CHANGELOG.md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    """By its path, or by the end of it. Files of the reader are not ours to find."""
    named = set(NAMED.findall(FENCE.sub("", page.read_text()))) - READERS_OWN
    assert [name for name in sorted(named) if not any(f"/{file}".endswith(f"/{name}") for file in FILES)] == []
