"""The pages and every `--help` are in plain English: they name the role or the thing, one word for one thing."""

import re
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest

from driftline.cli import main
from tests.structure.rooms import modules
from tests.support import ROOT
from tests.unit.config.test_docs import ALL

SOURCES = sorted({*modules().values(), *ROOT.glob("tests/**/*.py"), *ROOT.glob("bench/**/*.py")} - {Path(__file__)})
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob(".github/**/*.md")])
TOOLS = sorted(
    [
        *(ROOT / name for name in ("Makefile", "Dockerfile", "docker-compose.yml", "mkdocs.yml", "pyproject.toml")),
        *(
            one
            for folder in ("examples", "deploy", ".devcontainer")
            for one in ROOT.glob(f"{folder}/*")
            if one.is_file()
        ),
    ]
)

INSTEAD = {
    r"(who|whom|what)soever|whoever|whomever": "the role: the worker, the server, the coordinator, a client",
    r"somebody|someone|nobody|anybody|anyone|everybody|everyone": "the role, or 'no worker', 'every reader' …",
    r"unless said|(is|are) meant|who said it|as if": "the default, or its source",
    r"bears?|bearing|borne": "has, carries, tolerates",
    r"reign(s|ed|ing)?|abdicat\w+": "term, leads a term, steps down",
    r"farewells?|goodbyes?|mourn\w*": "leaves, reports its exit",
    r"burn(s|t|ed|ing)?": "discarded",
    r"figures?": "metrics, numbers",
    r"thaw\w*|unfreez\w*": "restore",
    r"timed clocks?|time-boxed clocks?": "time box",
    r"anew": "again, from nothing",
}
"""Words that no text uses, and what to write instead."""

INSTEAD_IN_PAGES = INSTEAD | {
    r"beside": "next to, with, in addition to",
    r"(record|ledger|head|offset|delta|checkpoint|snapshot)s? behind|behind (it|them|all)": "after",
    r"next to nothing": "almost nothing",
    r"in the middle of (five|nine)|at last|as they come": "the median, last, with their defaults",
    r"(an? |the )?one who|those who": "the role",
}
"""Words that no page, help text or file of a tool uses: these read like a translation."""

NAMES = re.compile(r"```.*?```|`[^`]+`|<!--.*?-->|\]\([^)]*\)", re.DOTALL)
"""Code, comments and link targets: these are names."""


def found(text: str, instead: Mapping[str, str] = INSTEAD) -> Iterator[str]:
    """Yield each word of a text that has a better one."""
    for pattern, better in instead.items():
        for match in re.finditer(rf"(?<![-\w.])({pattern})(?![-\w])", NAMES.sub(" ", text), re.IGNORECASE):
            yield f"{match[0]!r}: write {better}"


def spoken(command: click.Command) -> Iterator[str]:
    """Yield what the help of a command says, without its usage line."""
    yield command.help or ""
    yield command.epilog or ""
    yield command.short_help or ""
    for parameter in command.params:
        yield getattr(parameter, "help", None) or ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_in_plain_english(page: Path) -> None:
    """Of the changelog, what is not released yet."""
    text = page.read_text()
    if page.name == "CHANGELOG.md":
        text = re.split(r"^## \[\d", text, flags=re.MULTILINE)[0]
    assert list(found(text, INSTEAD_IN_PAGES)) == []


@pytest.mark.parametrize("file", TOOLS, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_file_of_a_tool_is_in_plain_english(file: Path) -> None:
    """What people read before they run it."""
    assert list(found(file.read_text(), INSTEAD_IN_PAGES)) == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.relative_to(ROOT)))
def test_a_module_is_in_plain_english(source: Path) -> None:
    """Its docstrings, comments and messages."""
    assert list(found("\n".join(_prose(source)))) == []


def _prose(source: Path) -> Iterator[str]:
    with source.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            is_text = token.type == tokenize.STRING and " " in token.string
            if is_text or token.type == tokenize.COMMENT:
                yield token.string


@pytest.mark.parametrize("words", ALL)
def test_a_help_text_is_in_plain_english(words: str) -> None:
    """Of every command and every option."""
    assert list(found("\n".join(spoken(ALL[words])), INSTEAD_IN_PAGES)) == []


def test_the_overview_is_in_plain_english() -> None:
    """Of the command itself."""
    assert list(found("\n".join(spoken(main)), INSTEAD_IN_PAGES)) == []


@pytest.mark.parametrize("text", ["for whoever asks", "Nobody waits", "the sample is burned", "it says\nwho said it"])
def test_a_word_that_has_a_better_one_would_be_found(text: str) -> None:
    """The check can fail."""
    assert list(found(text)) != []


@pytest.mark.parametrize("text", ["with a server beside it", "the records behind it", "those who join"])
def test_a_word_that_reads_like_a_translation_would_be_found(text: str) -> None:
    """In a page."""
    assert list(found(text, INSTEAD_IN_PAGES)) != []
