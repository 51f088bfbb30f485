"""What a script's worker is called: a name that is the same at its next start, and no other process's.

Identity in a run goes by name, so a name with a process id in it would make a newcomer of every restart. The name of a
script is that of its machine and a number, the lowest that no living process of this machine holds for the run; a lock
on a file of the machine's folder for temporary files says so, and goes with the process, however it ends.
"""

import fcntl
import hashlib
import os
import tempfile
import threading
from pathlib import Path

from driftline.config.members import check_member_name, own_host
from driftline.errors import UsageError

VARIABLE = "DRIFTLINE_WORKER"
MOST_LOCAL = 10_000
_PRIVATE = 0o700


_held: dict[Path, list[int]] = {}
"""Lock → descriptor, how often it is claimed, and by which process: closing any descriptor of a file drops its lock."""

_lock = threading.Lock()


class ClaimedName:
    """A name that this process holds on this machine until `release`, or until its end."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._path: Path | None = path

    def release(self) -> None:
        """Let go of it. Idempotent."""
        with _lock:
            path, self._path = self._path, None
            held = None if path is None else _held.get(path)
            if path is None or held is None or held[2] != os.getpid():
                return
            held[1] -= 1
            if not held[1]:
                del _held[path]
                os.close(held[0])


def claim_name(place: str, wanted: str | None, folder: Path | None = None) -> ClaimedName:
    """Claim the name of a worker.

    Args:
        place: Kafka's address and the run's name: who works elsewhere may have the same name.
        wanted: the name; None takes that of the machine with the lowest number that no other process holds.
        folder: of the locks; by default this user's, in the machine's folder for temporary files.

    Raises:
        UsageError: ``wanted`` cannot be a name, or another process of this machine holds it.
    """
    folder = _made(_own_folder() if folder is None else folder)
    if wanted is None:
        host = own_host()
        for number in range(1, MOST_LOCAL + 1):
            found = _try(folder, place, f"{host}-{number}")
            if found is not None:
                return found
        raise UsageError(f"{MOST_LOCAL} processes of this machine work for {place} already")
    check_member_name(wanted, "worker")
    found = _try(folder, place, wanted)
    if found is None:
        raise UsageError(
            f"worker {wanted!r} of {place} is at work in another process of this machine; a run knows its workers by "
            f"name, so give this one another: worker=… or {VARIABLE}"
        )
    return found


def _try(folder: Path, place: str, name: str) -> ClaimedName | None:
    path = folder / hashlib.sha256(f"{place}\0{name}".encode()).hexdigest()[:32]
    with _lock:
        held = _held.get(path)
        if held is None or held[2] != os.getpid():
            descriptor = _locked(path)
            if descriptor is None:
                return None
            held = _held[path] = [descriptor, 0, os.getpid()]
        held[1] += 1
    return ClaimedName(name, path)


def _locked(path: Path) -> int | None:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # Not flock: children that are forked off, as those of a DataLoader are, must not keep the name.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            os.close(descriptor)
            return None
        except OSError as error:
            os.close(descriptor)
            raise UsageError(
                f"{path.parent} has no file locks: {error.strerror}; TMPDIR names a folder on another disk"
            ) from error
        if _is_there(path, descriptor):
            return descriptor
        os.close(descriptor)  # the file was deleted in between, so that its lock tells no other process anything


def _is_there(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _own_folder() -> Path:
    """Return a folder that is emptied with the session, not by a cleaner of old files, if there is one."""
    session = os.environ.get("XDG_RUNTIME_DIR", "")
    if session and os.access(session, os.W_OK):
        return Path(session) / "driftline"
    try:
        return Path(tempfile.gettempdir()) / f"driftline-{os.getuid()}"
    except FileNotFoundError as error:
        raise UsageError(f"{error.strerror or error}; TMPDIR names a folder that can be written") from error


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        owner = folder.stat().st_uid
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror or error}; TMPDIR names another place") from error
    if owner != os.getuid():
        raise UsageError(f"{folder} belongs to another user; TMPDIR names another place")
    return folder
