"""Is that process still the one we started? Process ids are reused, so the answer needs more than the id."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from driftline.broker.embedded.state import Launch

_PS_TIMEOUT_S = 5.0
_ZOMBIE = "Z"
_EXEC_TRIES, _EXEC_WAIT_S = 50, 0.01


def is_running(launch: Launch) -> bool:
    """Whether the process of ``launch`` lives: the id exists, is no zombie, and its command line bears the token.

    One that is dying counts as alive until its last thread is gone, for so long it keeps its ports and locks.
    """
    return _bears(launch) or _is_dying(launch.pid)


def _bears(launch: Launch) -> bool:
    for _ in range(_EXEC_TRIES):
        seen = _inspect(launch.pid)
        if seen is None or seen[0] == _ZOMBIE:
            return False
        if seen[1]:
            return launch.token in seen[1]
        # A process that is just turning into another program has no command line for a moment; a kernel thread never.
        time.sleep(_EXEC_WAIT_S)
    return False


def _is_dying(pid: int) -> bool:
    # Linux shows the first thread of a killed process as a zombie, without a command line, while others still end.
    seen = _inspect(pid)
    if sys.platform != "linux" or seen is None or seen[0] != _ZOMBIE:
        return False
    try:
        return len(list((Path("/proc") / str(pid) / "task").iterdir())) > 1
    except OSError:
        return False


def send(launch: Launch, number: signal.Signals) -> bool:
    """Signal the process of ``launch``, and no other; False if it is gone."""
    if not _bears(launch):
        return False
    try:
        os.kill(launch.pid, number)
    except ProcessLookupError:
        return False
    return True


def _inspect(pid: int) -> tuple[str, str] | None:
    """Return state letter and command line of a process, None if it is gone."""
    return _inspect_proc(pid) if sys.platform == "linux" else _inspect_ps(pid)


def _inspect_proc(pid: int) -> tuple[str, str] | None:
    folder = Path("/proc") / str(pid)
    try:
        stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        command = (folder / "cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name in parentheses may hold spaces and parentheses itself; the state follows the last one.
    return stat.rpartition(")")[2].split()[0], command.replace("\0", " ")


def _inspect_ps(pid: int) -> tuple[str, str] | None:
    command = ["ps", "-ww", "-o", "stat=,command=", "-p", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PS_TIMEOUT_S, check=False)  # noqa: S603 - fixed words and a number
    except (OSError, subprocess.TimeoutExpired):
        return None
    state, _, line = done.stdout.decode(errors="replace").strip().partition(" ")
    return (state[:1], line.strip()) if state else None
