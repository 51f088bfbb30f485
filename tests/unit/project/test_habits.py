"""What a contributor's checkout does by itself: commit subjects, hooks, the container to work in."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()
[SUBJECT_BUDGET] = map(int, re.findall(r"^SUBJECT_BUDGET := (\d+)$", MAKEFILE, re.MULTILINE))


def commits(folder: Path, since: str) -> subprocess.CompletedProcess[str]:
    """Run the check of commit subjects in a folder."""
    command = ("make", "--silent", f"SUBJECTS_SINCE={since}", "commits")
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def git(folder: Path, *words: str) -> str:
    """Run git as an author of its own, and return what it printed."""
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")
    return subprocess.run(("git", *author, *words), cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository whose first commit has a subject that is too long."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", "x" * (SUBJECT_BUDGET + 1))
    return tmp_path


@pytest.mark.parametrize("over", [0, 1])
def test_a_subject_that_is_too_long_fails_and_older_ones_do_not(clone: Path, over: int) -> None:
    """Only commits behind the stated one are looked at; the longest subject that passes has the whole budget."""
    start = git(clone, "rev-parse", "HEAD").strip()
    subject = "y" * (SUBJECT_BUDGET + over)
    git(clone, "commit", "--quiet", "--allow-empty", "--message", f"{subject}\n\n{'why ' * 40}")
    done = commits(clone, start)
    assert (done.returncode, subject in done.stdout) == ((2, True) if over else (0, False))


def test_a_history_without_the_stated_commit_is_left_alone_and_says_so(clone: Path) -> None:
    """A shallow clone."""
    done = commits(clone, "1234567890" * 4)
    assert (done.returncode, done.stderr) == (0, "")
    assert "not checked" in done.stdout


def test_a_folder_that_is_no_clone_passes(tmp_path: Path) -> None:
    """An unpacked sdist."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    done = commits(tmp_path, "1234567890" * 4)
    assert (done.returncode, done.stderr) == (0, "")


def test_hooks_are_those_of_the_environment_and_agree_with_the_makefile() -> None:
    """Nothing is fetched from elsewhere."""
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    config = yaml.safe_load(text)
    assert [one["repo"] for one in config["repos"]] == ["local"]
    hooks = {hook["id"]: hook["entry"] for hook in config["repos"][0]["hooks"]}
    assert hooks.keys() == {"ruff-check", "ruff-format", "subject"}
    for name in ("ruff-check", "ruff-format"):
        assert (ROOT / hooks[name].split()[0]).is_file()
    assert f"length > {SUBJECT_BUDGET} " in hooks["subject"]


def test_the_container_to_work_in_is_made_by_a_real_target() -> None:
    """One command, the same as without a container."""
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    [target] = re.findall(r"^make ([\w-]+)$", container["postCreateCommand"])
    assert re.search(rf"^{target}:.*## ", MAKEFILE, re.MULTILINE)
