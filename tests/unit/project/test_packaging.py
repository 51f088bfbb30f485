"""Set-up promises that need no installation to check: pins, versions, one spelling of each import."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from driftline import __version__
from tests.support import ROOT

PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def pins(file: str) -> dict[str, set[str]]:
    """Name to pinned versions; a package has several when one version does not serve every supported Python."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", (ROOT / file).read_text(), re.MULTILINE):
        found.setdefault(canonicalize_name(name), set()).add(version)
    return found


def declared(*, running: bool) -> list[Requirement]:
    """List the requirements in pyproject.toml: of a run on this machine, or all of them."""
    project, groups = PYPROJECT["project"], PYPROJECT["dependency-groups"]
    extras = project["optional-dependencies"]
    [everything] = [Requirement(line) for line in extras["all"]]
    lists = [
        project["dependencies"],
        *(lines for extra, lines in extras.items() if not running or extra in everything.extras),
        *(lines for group, lines in groups.items() if not running or group == "build"),
    ]
    wanted = [Requirement(line) for lines in lists for line in lines if isinstance(line, str)]
    return [requirement for requirement in wanted if requirement.name != project["name"]]


DECLARED = [
    (file, requirement)
    for file, running in (("requirements.txt", True), ("requirements-dev.txt", False))
    for requirement in declared(running=running)
]


@pytest.mark.parametrize(("file", "requirement"), DECLARED, ids=str)
def test_every_declared_dependency_is_pinned_within_its_bounds(file: str, requirement: Requirement) -> None:
    """A change of pyproject.toml needs `make requirements`."""
    versions = pins(file).get(canonicalize_name(requirement.name), set())
    assert versions, f"{requirement.name} is not pinned: run `make requirements`"
    assert all(requirement.specifier.contains(version) for version in versions)


def test_the_demo_and_the_tests_run_the_same_versions() -> None:
    """The short file is a part of the long one, PyTorch included."""
    few, all_of_them = pins("requirements.txt"), pins("requirements-dev.txt")
    assert {name: all_of_them.get(name) for name in few} == few
    assert "torch" in few


def test_the_demo_installs_no_tools() -> None:
    """Linters, test runners and the trainers of the examples come with `make test`."""
    tools = {
        canonicalize_name(Requirement(one).name) for one in PYPROJECT["dependency-groups"]["dev"] if type(one) is str
    }
    assert tools & pins("requirements.txt").keys() == set()


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-dev.txt", "requirements-uv.txt"])
def test_pins_carry_hashes_and_no_address(file: str) -> None:
    """What is installed is what was pinned, from whichever index the machine uses."""
    text = (ROOT / file).read_text()
    entries = re.split(r"^(?=\S)", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE), flags=re.MULTILINE)[1:]
    assert entries
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []
    assert not re.search(r"://|find-links|index-url|file:|/home|/root", text)


def test_the_build_backend_is_the_pinned_one() -> None:
    """The editable install and the wheel test build without fetching a second backend."""
    assert PYPROJECT["build-system"]["requires"] == PYPROJECT["dependency-groups"]["build"]


def test_the_changelog_knows_this_version() -> None:
    """A release is described before it is made."""
    assert re.search(rf"^## \[{re.escape(__version__)}\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("folder", ["producers", "consumers", "schemas", "training"])
def test_a_second_spelling_of_an_import_is_refused(folder: str) -> None:
    """`import schemas` would make a second copy of every class in it."""
    command = (sys.executable, "-m", "ruff", "check", "--select", "TID251", "--stdin-filename", "training/x.py", "-")
    done = subprocess.run(command, cwd=ROOT, input=f"import {folder}.x\n", capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"import driftline.{folder}" in done.stdout


def test_a_machine_without_a_new_enough_python_gets_a_message_with_the_way_out(tmp_path: Path) -> None:
    """The message names what was tried and the way out."""
    python = tmp_path / "venv" / "bin" / "python"
    done = subprocess.run(
        ("make", f"VENV={tmp_path / 'venv'}", "PYTHON=python-that-is-not-there false", python),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "needs Python 3.11 or newer, and none of these is: python-that-is-not-there false." in done.stderr
    assert "make PYTHON=" in done.stderr
    assert not python.exists()
