"""The process of a node's JVM: which one it is, whether it runs, and how to signal it and no other.

Process ids are reused, so an id alone identifies nothing: each start puts a random token on the JVM's command line.
"""

import json
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from driftline.broker.embedded.files import write_atomically

_EXEC_TRIES, _EXEC_WAIT_S = 50, 0.01


@dataclass(frozen=True, slots=True)
class Launch:
    """One start of a node's JVM.

    Attributes:
        pid: its process id.
        token: random, on its command line: a process with this id and without this token is not ours.
        aot: whether it uses an ahead-of-time cache.
        folder: the folder it works in, see `identity`; empty in files of earlier releases.
    """

    pid: int
    token: str
    aot: bool
    folder: str = ""


def identity(folder: Path) -> str:
    """Return what a folder keeps when it is moved and a copy of it does not have; empty if it does not exist."""
    try:
        seen = folder.stat()
    except OSError:
        return ""
    return f"{seen.st_dev}:{seen.st_ino}"


def load_launch(path: Path) -> Launch | None:
    """Read a process id file; None if it is missing or damaged: then nothing is known of any process."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Launch(int(data["pid"]), str(data["token"]), bool(data["aot"]), str(data.get("folder", "")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save_launch(path: Path, launch: Launch) -> None:
    """Write a process id file."""
    write_atomically(path, json.dumps(asdict(launch)))


def is_running(launch: Launch) -> bool:
    """Whether the process of ``launch`` runs.

    A killed process counts as running until its last thread has ended: until then it holds its ports and locks.
    """
    return _find(launch) is not None or _is_dying(launch.pid)


def send(launch: Launch, number: signal.Signals) -> bool:
    """Signal the process of ``launch``, and no other; False if it does not run."""
    process = _find(launch)
    if process is None:
        return False
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return False
    return True


def _find(launch: Launch) -> psutil.Process | None:
    for _ in range(_EXEC_TRIES):
        try:
            process = psutil.Process(launch.pid)
            if process.status() == psutil.STATUS_ZOMBIE:
                return None
            words = process.cmdline()
        except (psutil.Error, ValueError):
            return None
        if words:
            return process if any(launch.token in word for word in words) else None
        # A process that is replacing its program has no command line for a moment; a kernel thread never has one.
        time.sleep(_EXEC_WAIT_S)
    return None


def _is_dying(pid: int) -> bool:
    # Linux shows a killed process as a zombie without a command line while its other threads still end.
    try:
        process = psutil.Process(pid)
        return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() > 1
    except (psutil.Error, ValueError):
        return False
