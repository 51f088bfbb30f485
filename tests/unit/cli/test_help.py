"""Every command's help ends with an example that the command line itself would take."""

import re
import shlex

import click
import pytest
from click.testing import CliRunner

from driftline.cli import main
from tests.unit.config.test_docs import ALL
from tests.unit.test_docs import complaint


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
