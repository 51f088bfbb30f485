"""Commands as processes of their own, whose output can be waited for."""

import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

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
    found = {}
    for child in psutil.Process(pid).children():
        with contextlib.suppress(psutil.Error):
            words = child.cmdline()
            if "--name" in words:
                found[words[words.index("--name") + 1]] = child.pid
    return found


def lives(pid: int) -> bool:
    """Whether this process runs; a zombie does not count."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
