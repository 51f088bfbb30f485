"""Commands as processes of their own, whose output can be waited for."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DRIFTLINE = (sys.executable, "-m", "driftline")


@dataclass(slots=True)
class Command:
    """A running ``driftline`` with its output in a file."""

    process: "subprocess.Popen[bytes]"
    output: Path

    def said(self) -> str:
        """Return everything that it wrote so far."""
        return self.output.read_text(errors="replace")

    def until(self, pattern: str, timeout_s: float = 90.0) -> "re.Match[str]":
        """Wait until it has written something."""
        deadline_s = time.monotonic() + timeout_s
        while (found := re.search(pattern, self.said())) is None:
            assert self.process.poll() is None, f"ended with {self.process.returncode}:\n{self.said()[-4000:]}"
            assert time.monotonic() < deadline_s, f"no {pattern!r} in {timeout_s:.0f} s:\n{self.said()[-4000:]}"
            time.sleep(0.05)
        return found

    def code(self, timeout_s: float = 90.0) -> int:
        """Wait for its end, and return the exit code."""
        return self.process.wait(timeout_s)


class Commands:
    """Starts commands against one Kafka and ends those that are left."""

    def __init__(self, folder: Path, bootstrap_servers: str) -> None:
        self.folder = folder
        self._bootstrap_servers = bootstrap_servers
        self._all: list[Command] = []

    def start(self, *words: str) -> Command:
        """Start one."""
        output = self.folder / f"output-{len(self._all)}.txt"
        with output.open("wb") as file:
            process = subprocess.Popen(
                [*DRIFTLINE, *words, *self._where()], stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
            )
        command = Command(process, output)
        self._all.append(command)
        return command

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run one to its end."""
        command = [*DRIFTLINE, *words, *self._where()]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def end(self) -> None:
        """Kill those that are left."""
        for command in self._all:
            command.process.kill()
            command.process.wait()

    def _where(self) -> Sequence[str]:
        return ("--bootstrap-servers", self._bootstrap_servers, "--home", str(self.folder))


def children_of(pid: int) -> dict[str, int]:
    """Return name → process id of the roles that a ``train`` has started."""
    command = ["ps", "-A", "-ww", "-o", "pid=", "-o", "ppid=", "-o", "args="]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = {}
    for line in listing.splitlines():
        child, parent, words = line.split(None, 2)
        name = re.search(r" --name (\S+)", words)
        if int(parent) == pid and name:
            found[name[1]] = int(child)
    return found


def lives(pid: int) -> bool:
    """Whether there is such a process; one that ended and that nobody has asked about does not count."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return not state.strip().startswith("Z")
