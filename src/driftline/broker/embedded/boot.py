"""Becomes the JVM of a node, with a watchdog beside it. A script for a bare interpreter; it imports nothing of ours.

A kept broker must outlive the process that started it; any other must end with its last user, also after ``kill -9``.
So the starter runs this script. It detaches (new session, adopted by init), forks a watchdog as a child, writes the
process id file and then replaces itself by the JVM. The id never changes, and no JVM ever runs without an id file and
a watchdog.

The watchdog checks twice a second: does a process hold the users' lock (the kernel drops it for the dead), does the
"keep" file exist, does the broker's folder exist? It also bounds the log. While the JVM ends it holds the ending lock,
shared with the watchdogs of other nodes: all nodes end at once, and a new user waits for them.
"""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import sys
import time

_POLL_S = 0.5
_GRACE_S = 15.0
_MAX_LOG_BYTES = 8 * 1024 * 1024


def main() -> None:
    """Start the JVM that standard input (JSON) describes, and print its process id."""
    spec = json.load(sys.stdin)
    os.chdir(spec["folder"])
    child = os.fork()
    if child:
        sys.stdout.write(f"{child}\n")
        return
    os.setsid()
    _redirect(spec["log"])
    jvm = os.getpid()
    # Opened before the fork: a watchdog that finds no lock files, because the home was removed, would watch nothing.
    # The JVM does not inherit them: Python marks its files to be closed when another program is executed.
    users, ending = (os.open(spec[lock], os.O_RDWR | os.O_CREAT, 0o666) for lock in ("users_lock", "ending_lock"))
    if not os.fork():
        _watch(jvm, spec, users, ending)
        os._exit(0)
    _write_id(spec, jvm)
    os.execv(spec["command"][0], spec["command"])  # noqa: S606 - our own command line, without a shell


def _redirect(log: str) -> None:
    # Append mode lets the watchdog truncate the file while the JVM writes to it.
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(output)
    os.close(nothing)


def _write_id(spec: dict[str, str], pid: int) -> None:
    part = f"{spec['id_file']}.part"
    with open(part, "w", encoding="utf-8") as file:  # noqa: PTH123 - pathlib is a third of this script's start
        json.dump({"pid": pid, "token": spec["token"], "aot": spec["aot"], "folder": spec["identity"]}, file)
    os.replace(part, spec["id_file"])  # noqa: PTH105


def _watch(jvm: int, spec: dict[str, str], users: int, ending: int) -> None:
    while os.getppid() == jvm:
        _bound(spec["log"])
        if not os.path.isdir(spec["folder"]) or (_take(users) and not _kept(users, spec["keep_file"])):  # noqa: PTH112
            # In this order: a new user from here on finds the ending lock taken.
            fcntl.flock(ending, fcntl.LOCK_SH)
            fcntl.flock(users, fcntl.LOCK_UN)
            _end(jvm)
            return
        time.sleep(_POLL_S)


def _take(users: int) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _kept(users: int, keep_file: str) -> bool:
    # Checked while the lock is held: a process that keeps the broker writes the file while it is a user.
    if not os.path.exists(keep_file):  # noqa: PTH110
        return False
    fcntl.flock(users, fcntl.LOCK_UN)
    return True


def _end(jvm: int) -> None:
    # The parent id proves that the JVM lives: when it dies, this process gets another parent.
    for number, patience_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _GRACE_S)):
        until_s = time.monotonic() + patience_s
        if os.getppid() == jvm:
            os.kill(jvm, number)
        while os.getppid() == jvm and time.monotonic() < until_s:
            time.sleep(_POLL_S / 10)


def _bound(log: str) -> None:
    with contextlib.suppress(OSError):
        if os.stat(log).st_size > _MAX_LOG_BYTES:  # noqa: PTH116
            shutil.copyfile(log, f"{log}.1")
            os.truncate(log, 0)


if __name__ == "__main__":
    main()
