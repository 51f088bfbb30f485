"""What a script's worker is called: a name that is the same at its next start, and no other process's.

Identity in a run goes by name, so a name with a process id in it would make a newcomer of every restart. The name of a
script is that of its machine and a number, the lowest that no living process of this machine holds for the run; a lock
on a file of the machine's folder for temporary files says so, and goes with the process, however it ends.
"""

import fcntl
import hashlib
import os
import socket
import tempfile
import threading
from pathlib import Path

from driftline.errors import UsageError
from driftline.schemas.records.identity import MAX_NAME_CHARS, is_member_name

VARIABLE = "DRIFTLINE_WORKER"
MOST_LOCAL = 10_000
_HOST_CHARS = 48
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
    if not is_member_name(wanted):
        raise UsageError(
            f"worker name {wanted[: MAX_NAME_CHARS + 1]!r} is not usable: it must have 1 to {MAX_NAME_CHARS} printable "
            f'characters, without "/" and "\\", no "." as the first and no space as the first or last; an example is '
            f'"worker-1"'
        )
    found = _try(folder, place, wanted)
    if found is None:
        raise UsageError(
            f"worker {wanted!r} of {place} is at work in another process of this machine; a run knows its workers by "
            f"name, so give this one another: worker=… or {VARIABLE}"
        )
    return found


def own_host() -> str:
    """Return this machine's name, as far as it can be part of a worker's."""
    host = "".join(letter for letter in socket.gethostname().partition(".")[0] if letter.isalnum() or letter == "-")
    return host.strip("-")[:_HOST_CHARS] or "host"


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
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # Not flock: children that are forked off, as those of a DataLoader are, must not keep the name.
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        os.close(descriptor)
        return None
    return descriptor


def _own_folder() -> Path:
    return Path(tempfile.gettempdir()) / f"driftline-{os.getuid()}"


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        owner = folder.stat().st_uid
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror or error}; TMPDIR names another place") from error
    if owner != os.getuid():
        raise UsageError(f"{folder} belongs to another user; TMPDIR names another place")
    return folder
