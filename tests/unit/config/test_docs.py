"""What the pages say about settings, commands and options is what the code has, and all of it."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from driftline.cli import COMMANDS, main
from driftline.config.keys import KEYS
from driftline.config.reference import tables
from tests.support import ROOT

DOCS = ROOT / "docs"
CONFIGURATION = (DOCS / "configuration.md").read_text()
PAGES = "".join(page.read_text() for page in sorted(DOCS.glob("*.md")))


def commands(group: click.Group = main, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Yield every command with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield " ".join((*words, name)), command
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))


ALL = dict(commands())
OPTIONS = [
    (words, option)
    for words, command in ALL.items()
    for parameter in command.params
    if isinstance(parameter, click.Option)
    for option in parameter.opts
]


def test_the_tables_of_settings_are_made_from_the_declarations() -> None:
    """To write them: make settings."""
    assert tables() in CONFIGURATION
    assert all(f"| `{key.path}` |" in CONFIGURATION for key in KEYS)


def test_the_reference_file_is_what_the_command_prints() -> None:
    """To write it: make settings."""
    printed = CliRunner().invoke(main, ["config", "--reference"]).stdout
    assert (DOCS / "driftline.reference.toml").read_text() == printed


@pytest.mark.parametrize("words", ALL)
def test_every_command_is_explained(words: str) -> None:
    """On some page."""
    assert f"driftline {words}" in PAGES


@pytest.mark.parametrize(("words", "option"), OPTIONS, ids=lambda value: value)
def test_every_option_is_explained(words: str, option: str) -> None:
    """By its long name, if it has one."""
    command = ALL[words]
    parameter = next(one for one in command.params if option in one.opts)
    assert any(f"`{name}" in PAGES or f" {name}" in PAGES for name in parameter.opts), f"{words} {option}"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_overview_has_one_line_a_command(name: str) -> None:
    """Of the command line's own table."""
    assert COMMANDS[name].endswith(".")
