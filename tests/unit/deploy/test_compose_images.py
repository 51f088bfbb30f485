"""What the images are built from, without an engine; and the script that names a container's member, run."""

import os
import re
import shutil
import signal
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.compose.description import described
from tests.support import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text()
INSTRUCTIONS = re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE).replace("\\\n", "")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SCRIPT = ROOT / "deploy" / "as-member"


def stage(name: str) -> str:
    """Return the instructions of a stage."""
    [found] = re.findall(rf"^FROM \S+ AS {name}\n(.*?)(?=^FROM |\Z)", INSTRUCTIONS, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.mark.parametrize("service", ["server", "worker", "evaluator", "create-run", "driftline"])
def test_compose_builds_the_image_of_a_service_with_the_defaults_of_the_dockerfile(service: str) -> None:
    """A build by hand and one by Compose give the same image. One that is not built would be looked for elsewhere."""
    one = described()["services"][service]
    build, role = one["build"], one["image"].removeprefix("driftline-")
    assert build["target"] == role
    assert stage(role).split() == ["COPY", f"--from={role}-packages", "/opt/driftline", "/opt/driftline"]
    for name, value in build["args"].items():
        assert f"ARG {name}={value}" in DOCKERFILE


def test_an_image_runs_as_a_user_without_rights_and_python_hears_signals() -> None:
    """Not root, no shell between the engine and the command."""
    assert re.findall(r"^USER (.+)$", INSTRUCTIONS, re.MULTILINE) == ["driftline"]
    assert "USER driftline" in stage("base")
    assert 'ENTRYPOINT ["driftline"]' in stage("base")
    assert "FROM base AS server" in DOCKERFILE
    assert "FROM base AS worker" in DOCKERFILE


def test_extras_are_real_and_servers_get_no_torch() -> None:
    """Misspelt extras would be left out without a word."""
    extras = {role: set(re.findall(r"--extra (\w+)", stage(f"{role}-packages"))) for role in ("server", "worker")}
    assert extras["server"] == {"metrics"}
    assert extras["worker"] == {"train", "metrics"}
    assert extras["worker"] <= set(PYPROJECT["project"]["optional-dependencies"])


def test_what_is_installed_is_pinned_by_its_hash_and_from_no_named_place() -> None:
    """The exception, torch for the CPU, has at least the pinned version."""
    installs = re.findall(r"(?:uv pip|/pip) install [^&\n;]*", INSTRUCTIONS)
    loose = [line for line in installs if not re.search(r"--constraint requirements-dev\.txt|--require-hashes", line)]
    assert [line.strip() for line in loose if "/wheel/*.whl" not in line] == [
        """uv pip install --no-deps --torch-backend cpu "$(grep --only-matching '^torch==[^"""
    ]
    assert "://" not in DOCKERFILE


def test_the_engine_is_sent_all_sources_and_nothing_else() -> None:
    """A folder that the wheel is made of and the engine does not get would be missing in the image."""
    sent = {line.strip("!/") for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    wheel = {folder.split("/")[0] for folder in PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]}
    described_by = {PYPROJECT["project"]["readme"], *PYPROJECT["project"]["license-files"], "pyproject.toml"}
    assert sent == {*wheel, *described_by, "requirements-dev.txt", "requirements-uv.txt", "deploy/as-member"}


@pytest.fixture
def surroundings(tmp_path: Path) -> dict[str, str]:
    """A folder for names, and a `driftline` that says how it was called and then waits for its end."""
    if shutil.which("flock") is None:
        pytest.skip("flock is missing, which every image has: util-linux")
    command = tmp_path / "bin" / "driftline"
    command.parent.mkdir()
    command.write_text('#!/bin/sh\necho "$@"\nexec sleep 60\n')
    command.chmod(0o755)
    (tmp_path / "members").mkdir()
    return {"PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}", "MEMBERS": str(tmp_path / "members")}


def started(surroundings: dict[str, str], *words: str) -> tuple[subprocess.Popen[str], str]:
    """Start a member; return it and how it called `driftline`."""
    member = subprocess.Popen([SCRIPT, *words], env=surroundings, stdout=subprocess.PIPE, text=True)
    assert member.stdout is not None
    return member, member.stdout.readline().rstrip()


def end(member: subprocess.Popen[str], number: signal.Signals) -> int:
    """End a member by a signal; return how it ended."""
    member.send_signal(number)
    code = member.wait(10)
    if member.stdout is not None:
        member.stdout.close()
    return code


def test_each_container_takes_the_lowest_name_that_is_free(surroundings: dict[str, str]) -> None:
    """Names are unique while they are used, and come back when a container is made again, even after a kill."""
    first, said = started(surroundings, "worker", "digits")
    assert said == "worker --name worker-1 digits"
    second, said = started(surroundings, "worker")
    assert said == "worker --name worker-2"
    server, said = started(surroundings, "server")
    assert said == "server --name server-1", "roles count by themselves"
    assert end(first, signal.SIGKILL) == -signal.SIGKILL
    again, said = started(surroundings, "worker")
    assert said == "worker --name worker-1"
    for member in (second, server, again):
        assert end(member, signal.SIGTERM) == -signal.SIGTERM, "the signal reaches the command: no shell is in between"


def test_a_folder_that_cannot_be_written_is_named(surroundings: dict[str, str], tmp_path: Path) -> None:
    """One that is not there stands for one that is root's, because tests may be root's as well."""
    missing = tmp_path / "nowhere"
    done = subprocess.run(
        [SCRIPT, "worker"], env={**surroundings, "MEMBERS": str(missing)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert f"{missing} cannot be written by user {os.geteuid()}" in done.stderr
    assert f"sudo chown {os.geteuid()} FOLDER" in done.stderr
