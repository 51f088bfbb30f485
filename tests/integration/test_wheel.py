"""What a user installs: the wheel, built from the sdist, in an environment without the checkout and without torch."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from driftline import __version__
from tests.support import ROOT

FOLDERS = {  # in the checkout: in the wheel
    "src/driftline": "driftline",
    "producers": "driftline/producers",
    "consumers": "driftline/consumers",
    "schemas": "driftline/schemas",
    "training": "driftline/training",
}
LINKED = ("producers", "consumers", "schemas", "training")


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command; what it printed is shown when the test fails."""
    environment = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=100, check=False)
    sys.stdout.write(f"$ {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done


def build(source: Path, out: Path, *what: str) -> Path:
    """Build and return the wheel; without ``what`` it is made from the sdist, which is how an index user gets it."""
    done = run(sys.executable, "-m", "build", "--no-isolation", *what, "--outdir", out, source, cwd=out.parent)
    assert done.returncode == 0
    return next(out.glob("*.whl"))


def names(wheel: Path) -> set[str]:
    """List the files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def installed_files() -> set[str]:
    """Name what the checkout's folders say that a wheel must hold."""
    files = set()
    for source, target in FOLDERS.items():
        folder = ROOT / source
        for path in folder.rglob("*"):
            parts = path.relative_to(folder).parts
            linked = source == "src/driftline" and parts[0] in LINKED
            if path.is_file() and not linked and "__pycache__" not in parts:
                files.add(Path(target, *parts).as_posix())
    return files


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of this checkout from its sdist."""
    return build(ROOT, tmp_path_factory.mktemp("built") / "dist")


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel and its base dependencies, at the pinned versions, where nothing else is."""
    folder = tmp_path_factory.mktemp("installed")
    assert run(sys.executable, "-m", "uv", "venv", "--python", sys.executable, "venv", cwd=folder).returncode == 0
    install = (sys.executable, "-m", "uv", "pip", "install", "--python", folder / "venv" / "bin" / "python")
    wanted = ("--constraint", ROOT / "requirements.txt", wheel)
    offline = run(*install, "--offline", *wanted, cwd=folder)  # the set-up has just filled the cache with these
    assert offline.returncode == 0 or run(*install, *wanted, cwd=folder).returncode == 0
    return folder / "venv" / "bin"


def test_the_wheel_holds_every_file_of_the_five_folders_in_one_package(wheel: Path) -> None:
    """Modules, Avro schemas, the embedded broker's lock file: whatever stands in a folder is installed."""
    expected = installed_files()
    metadata = f"driftline-{__version__}.dist-info/"
    assert {name for name in names(wheel) if not name.startswith(metadata)} == expected
    assert "driftline/py.typed" in expected
    assert any(name.startswith("driftline/schemas/") and name.endswith(".avsc") for name in expected)
    assert f"{metadata}licenses/LICENSE" in names(wheel)


def test_a_checkout_whose_symlinks_are_plain_files_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """A zip download, or git without symlinks, writes a link as a file that holds its target."""
    checkout = tmp_path / "checkout"
    skip = shutil.ignore_patterns("__pycache__", *LINKED)
    shutil.copytree(ROOT / "src", checkout / "src", ignore=skip)
    for name in LINKED:
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
        (checkout / "src" / "driftline" / name).write_text(f"../../{name}")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout / name)
    assert names(build(checkout, tmp_path / "dist", "--wheel")) == names(wheel)


def test_the_command_runs_from_another_directory(scripts: Path, tmp_path: Path) -> None:
    """Nothing depends on where the checkout was."""
    version = run(scripts / "driftline", "--version", cwd=tmp_path)
    assert (version.returncode, version.stdout, version.stderr) == (0, f"driftline {__version__}\n", "")
    overview = run(scripts / "driftline", "--help", cwd=tmp_path)
    assert overview.returncode == 0
    assert "Exit codes: 0 done" in overview.stdout


@pytest.mark.parametrize("command", ["train", "server", "worker", "status", "runs", "broker"])
def test_every_command_explains_itself_without_torch(scripts: Path, tmp_path: Path, command: str) -> None:
    """Help is for choosing what to install, so it must not need it."""
    done = run(scripts / "driftline", command, "--help", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_training_without_the_extras_names_what_to_install(scripts: Path, tmp_path: Path) -> None:
    """The broker and the trainer each need something that a server does not have."""
    done = run(scripts / "driftline", "train", "digits", cwd=tmp_path)
    assert done.returncode != 0
    assert "pip install 'driftline[" in done.stderr
    assert "Traceback" not in done.stderr
