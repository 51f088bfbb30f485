"""Every command's help ends with an example that the command line itself would take."""

import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from driftline import cli
from driftline.cli import main
from tests.unit.config.test_docs import ALL
from tests.unit.docs.test_pages import complaint
from tests.unit.docs.test_words import found


@pytest.mark.parametrize("words", ALL)
def test_help_ends_with_an_example_of_this_command(words: str) -> None:
    """Parsed, then not run."""
    shown = CliRunner().invoke(main, [*words.split(), "--help"])
    assert shown.exit_code == 0
    found = re.search(r"Example: driftline ([^\n]*(?:\n  [^\n]+)*)\s*\Z", shown.output)
    assert found is not None, "no example at the end"
    example = shlex.split(found[1].partition(">")[0])
    assert example[: len(words.split())] == words.split()
    assert complaint(example) is None
    assert isinstance(ALL[words], click.Command)


@pytest.mark.parametrize("words", ["", *ALL])
def test_help_is_in_plain_english(words: str) -> None:
    """By the rules of the pages."""
    text = CliRunner().invoke(main, [*words.split(), "--help"]).output
    assert list(found(" ".join(text.split()))) == []


def test_messages_and_docstrings_are_in_plain_english() -> None:
    """In every message and docstring of the rooms that a person meets first."""
    pages = [page for room in ("cli", "config") for page in Path(cli.__file__).parents[1].joinpath(room).rglob("*.py")]
    assert {page.name: words for page in pages if (words := list(found(page.read_text())))} == {}
