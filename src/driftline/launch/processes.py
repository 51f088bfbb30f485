"""Child processes of a launcher, each with a name, a role and a log file.

The standard input of a child is a pipe from this process, so the child notices when this process ends for any reason.
It has a session of its own, so Ctrl-C in the terminal reaches this process alone, which then stops children in order.
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
        log: file of its output; earlier processes of the name wrote to it, too.
        log_from: offset in the file where its own output begins.
        reported: whether `Children.newly_ended` has returned it.
        disturbed: whether a fault ended it on purpose.
        mark: first bytes of the incarnations of a worker; empty for other roles.
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
        """Exit code; None while it lives, minus the number of the signal that ended it."""
        return self.process.poll()

    def ending(self) -> str:
        """Describe how it ended."""
        code = self.code
        if code is None:
            return "is running"
        if code < 0:
            return f"was ended by {_signal_name(-code)}"
        return f"ended with code {code}"

    def tail(self, lines: int = TAIL_LINES) -> str:
        """Return the last lines of its output."""
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
        logs: folder of their log files; the first start creates it.
        environment: variables, added to those of this process.
    """

    logs: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    all: list[Child] = field(default_factory=list)

    def start(self, name: str, role: str, command: Sequence[str], mark: bytes = b"") -> Child:
        """Start one; ``name`` is also the name of its log file, ``mark`` the mark in ``command``."""
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
        """Return the living ones, of one role or of all."""
        return [child for child in self.all if child.code is None and role in (None, child.role)]

    def ended_marks(self) -> set[bytes]:
        """Return the marks of the processes that have ended."""
        return {child.mark for child in self.all if child.mark and child.code is not None}

    def newly_ended(self) -> list[Child]:
        """Return those that ended since the last call."""
        ended = [child for child in self.all if not child.reported and child.code is not None]
        for child in ended:
            child.reported = True
        return ended

    def wait(self, timeout_s: float) -> bool:
        """Wait for all to end by themselves; return whether they did."""
        return _wait_for(self.all, timeout_s)

    def end(self, steps: Iterable[tuple[str, float]]) -> list[Child]:
        """End all living processes: SIGTERM role by role, at last SIGKILL. An interruption kills at once.

        Args:
            steps: role, and seconds to wait before the next step.

        Returns:
            The processes that SIGKILL ended.
        """
        terminated: list[Child] = []
        try:
            for role, patience_s in steps:
                for child in self.living(role):
                    child.process.terminate()
                    terminated.append(child)
                _wait_for(terminated, patience_s)
        finally:
            killed = self.kill()
        return killed

    def kill(self) -> list[Child]:
        """SIGKILL all living processes, and return them."""
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
