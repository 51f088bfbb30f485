"""Child processes of a launcher: each has a log file, a name, and an end that is noticed.

A child holds the reading end of a pipe of ours as its standard input, so it learns of our end whatever ends us. It is
in a session of its own, so that Ctrl-C at the terminal reaches us alone and we decide who stops first.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

TAIL_LINES = 15
_TAIL_BYTES = 16 * 1024
_POLL_S = 0.02
_KILL_WAIT_S = 2.0


@dataclass(slots=True)
class Child:
    """One process that we started.

    Attributes:
        log: where its output goes, and what earlier processes of the name wrote.
        log_from: where in the file its own output begins.
        reported: whether somebody has been told of its end.
        disturbed: whether its end, if it has ended, is one that was asked for.
        mark: with which the incarnations of a worker begin; empty for others.
    """

    name: str
    role: str
    process: subprocess.Popen[bytes]
    log: Path
    log_from: int
    reported: bool = False
    disturbed: bool = False
    mark: bytes = b""

    @property
    def code(self) -> int | None:
        """Exit code, None while it lives, minus the number of the signal that ended it."""
        return self.process.poll()

    def ending(self) -> str:
        """Say in words how it ended."""
        code = self.code
        if code is None:
            return "is running"
        if code < 0:
            return f"was ended by {_signal_name(-code)}"
        return f"ended with code {code}"

    def tail(self, lines: int = TAIL_LINES) -> str:
        """Return the last lines that it wrote."""
        with self.log.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(self.log_from, end - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-lines:])


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@dataclass(slots=True)
class Children:
    """All of them, in the order of their start.

    Attributes:
        logs: folder of their log files; it is made when it is needed.
        environment: added to ours.
    """

    logs: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    all: list[Child] = field(default_factory=list)

    def start(self, name: str, role: str, command: Sequence[str], mark: bytes = b"") -> Child:
        """Start one; ``name`` is also the name of its log file, ``mark`` a mark that ``command`` gives to it."""
        self.logs.mkdir(parents=True, exist_ok=True)
        log = self.logs / f"{name}.log"
        with log.open("ab") as output:
            log_from = output.tell()  # before the process can write: it shares the file's position with us
            process = subprocess.Popen(  # noqa: S603 - the caller's own command
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **self.environment},
            )
            child = Child(name, role, process, log, log_from, mark=mark)
        self.all.append(child)
        return child

    def living(self, role: str | None = None) -> list[Child]:
        """Return those that live, of one role or of all."""
        return [child for child in self.all if child.code is None and role in (None, child.role)]

    def dead_marks(self) -> set[bytes]:
        """Return the marks of those that have ended."""
        return {child.mark for child in self.all if child.mark and child.code is not None}

    def newly_ended(self) -> list[Child]:
        """Return those that ended since this was asked last."""
        ended = [child for child in self.all if not child.reported and child.code is not None]
        for child in ended:
            child.reported = True
        return ended

    def wait(self, timeout_s: float) -> bool:
        """Wait for all to end by themselves; return whether they did."""
        return _wait_for(self.all, timeout_s)

    def end(self, steps: Iterable[tuple[str, float]]) -> list[Child]:
        """End all that live: SIGTERM role by role, with so many seconds before the next step, at last SIGKILL.

        Interrupted, it kills at once and lets the interruption go on.

        Returns:
            Those that had to be killed.
        """
        asked: list[Child] = []
        try:
            for role, patience_s in steps:
                asked += self._ask_to_end(role)
                _wait_for(asked, patience_s)
        finally:
            stubborn = self.kill()
        return stubborn

    def _ask_to_end(self, role: str) -> list[Child]:
        living = self.living(role)
        for child in living:
            child.process.terminate()
        return living

    def kill(self) -> list[Child]:
        """SIGKILL all that live, and return them."""
        living = self.living()
        for child in living:
            child.process.kill()
        self.wait(_KILL_WAIT_S)
        for child in self.all:
            if child.process.stdin is not None:
                child.process.stdin.close()
        return living


def _wait_for(children: Iterable[Child], timeout_s: float) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while any(child.code is None for child in children):
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(_POLL_S)
    return True
