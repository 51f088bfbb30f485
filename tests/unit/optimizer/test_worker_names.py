"""Names of scripts' workers: the same at each start, and no other process's."""

import errno
import fcntl
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from driftline.config.members import own_host, own_name
from driftline.errors import UsageError
from driftline.schemas.records.identity import is_member_name
from driftline.training.optimizer.worker_names import claim_name

HOLD = """
import sys
from pathlib import Path
from driftline.training.optimizer.worker_names import claim_name
print(claim_name("run", sys.argv[2] or None, Path(sys.argv[1])).name, flush=True)
sys.stdin.read()
"""


class Others:
    """Other processes that hold names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.all: list[subprocess.Popen[str]] = []

    def hold(self, name: str = "") -> str:
        """Let one claim a name; return the one that it got."""
        command = [sys.executable, "-c", HOLD, str(self.folder), name]
        self.all.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        assert self.all[-1].stdout is not None
        return self.all[-1].stdout.readline().strip()

    def kill(self, place: int) -> None:
        """End one without any chance to tidy up."""
        self.all[place].kill()
        self.all[place].wait()


@pytest.fixture
def others(tmp_path: Path) -> Iterator[Others]:
    """No process outlives the test."""
    one = Others(tmp_path)
    yield one
    for process in one.all:
        process.kill()
        process.communicate()


def test_each_process_has_the_lowest_free_number_and_gets_it_back(others: Others) -> None:
    """A restart is the same worker, however its predecessor ended."""
    host = own_host()
    assert [others.hold(), others.hold()] == [f"{host}-1", f"{host}-2"]
    mine = claim_name("run", None, others.folder)
    assert mine.name == f"{host}-3"
    others.kill(0)
    assert others.hold() == f"{host}-1"
    mine.release()
    assert others.hold() == f"{host}-3"
    assert claim_name("another run", None, others.folder).name == f"{host}-1"


def test_a_name_that_another_process_holds_is_refused(others: Others) -> None:
    """With the way out; it is free once that process has ended."""
    others.hold("ada")
    with pytest.raises(
        UsageError, match=r"worker 'ada' of run is at work in another process .*worker=… or DRIFTLINE_WORK"
    ):
        claim_name("run", "ada", others.folder)
    others.kill(0)
    assert claim_name("run", "ada", others.folder).name == "ada"


def test_a_process_may_claim_a_name_twice_and_keeps_it_until_both_are_released(others: Others) -> None:
    """As when a notebook's cell is run again: the lock of a file goes with any of its descriptors."""
    first = claim_name("run", "ada", others.folder)
    second = claim_name("run", "ada", others.folder)
    first.release()
    first.release()
    assert others.hold("ada") == ""
    second.release()
    assert others.hold("ada") == "ada"


@pytest.mark.parametrize("name", ["a/b", "x" * 300, "\ud800", ".hidden", " a"])
def test_names_that_cannot_be(name: str, tmp_path: Path) -> None:
    """Refused before anything is made of them."""
    with pytest.raises(UsageError, match="is not usable: it must have 1 to 64 printable characters"):
        claim_name("run", name, tmp_path)


def test_machines_of_two_domains_have_two_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the host name alone, one worker would push the other out of the run."""
    names = []
    for host in ("gpu.berlin.example", "gpu.paris.example"):
        monkeypatch.setattr(socket, "gethostname", lambda host=host: host)
        names.append(own_host())
    assert names == ["gpu.berlin.example", "gpu.paris.example"]


@pytest.mark.parametrize("host", ["", "...", "-", "x" * 200, "gpu_1.example", "ä.example"])
def test_a_host_name_gives_a_legal_name(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the machine is called, also with the number behind it."""
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert is_member_name(f"{own_host()}-10000")
    assert is_member_name(own_name("evaluator"))


def test_a_lock_whose_file_a_cleaner_has_deleted_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a cleaner of old files; otherwise two processes would hold one name, each on a file of its own."""
    real, deleted = fcntl.lockf, list[Path]()

    def lock(descriptor: int, how: int) -> None:
        real(descriptor, how)
        if not deleted:
            deleted.extend(tmp_path.iterdir())
            deleted[0].unlink()

    monkeypatch.setattr(fcntl, "lockf", lock)
    mine = claim_name("run", "ada", tmp_path)
    assert list(tmp_path.iterdir()) == deleted
    with pytest.raises(UsageError, match="ada"):
        claim_in_child(tmp_path)
    mine.release()


def claim_in_child(folder: Path) -> None:
    """Claim the name in another process, and raise what it raises."""
    done = subprocess.run(
        [sys.executable, "-c", HOLD, folder, "ada"], input="", capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode:
        raise UsageError(done.stderr.strip().splitlines()[-1])


def test_a_folder_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the variable that names another."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", refuse)
    with pytest.raises(UsageError, match="has no file locks: No locks available; TMPDIR"):
        claim_name("run", "ada", tmp_path)


def test_locks_are_where_no_cleaner_of_old_files_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the folder of the session, if there is one."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    claim_name("run", "ada").release()
    assert [one.name for one in tmp_path.iterdir()] == ["driftline"]
