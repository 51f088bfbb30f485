"""Files of the embedded broker: where they are, how they are written, and locks that end with their holder.

Downloads are in the user's cache; a broker's state is under ``$DRIFTLINE_HOME``.
"""

import fcntl
import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from driftline.errors import EmbeddedBrokerError

Report: TypeAlias = Callable[[str], None]
"""Receives, in one line, what is being waited for; at most a few times a second."""

MIN_FREE_BYTES = 64 * 1024 * 1024
"""With less, a broker would start and then exit because all its log directories failed."""
_RETRY_S = 0.05
_REPORT_AFTER_S = 1.0


def quiet(_line: str) -> None:
    """Report nothing."""


def cache_root() -> Path:
    """Return driftline's folder in the user's cache directory; it may not exist yet."""
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "driftline"
    try:
        home = Path.home()
    except RuntimeError as error:
        raise EmbeddedBrokerError(
            "this user has no home directory: set XDG_CACHE_HOME to a folder where Kafka can be kept"
        ) from error
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "driftline"


def default_home() -> Path:
    """Return ``$DRIFTLINE_HOME``, or ``.driftline`` in the working directory."""
    return Path(os.environ.get("DRIFTLINE_HOME") or ".driftline")


def make_dir(path: Path, purpose: str) -> Path:
    """Create ``path`` with its parents and check that it can be written.

    Raises:
        EmbeddedBrokerError: it cannot be created or written, or its disk is full.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
        free = shutil.disk_usage(path).free
    except OSError as error:
        raise EmbeddedBrokerError(
            f"{path} ({purpose}) cannot be written: {error.strerror or error}. "
            "Set DRIFTLINE_HOME (broker state) or XDG_CACHE_HOME (downloads) to a folder that can."
        ) from error
    if free < MIN_FREE_BYTES:
        raise EmbeddedBrokerError(
            f"the disk of {path} ({purpose}) has {free // 2**20} MiB free, at least {MIN_FREE_BYTES // 2**20} MiB "
            "are needed. Make room, or set DRIFTLINE_HOME (broker state) or XDG_CACHE_HOME (downloads) to another disk."
        )
    return path


def write_atomically(path: Path, text: str) -> None:
    """Replace ``path`` by ``text``: a reader or a crash sees the old or the new content, never a part."""
    part = path.with_name(f".{path.name}-{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one broker. A crash damages none of them.

    Attributes:
        root: ``$DRIFTLINE_HOME/broker``, absolute.
    """

    root: Path

    @classmethod
    def of(cls, home: Path) -> "Layout":
        """Return the layout under ``home`` with links resolved: two spellings of a path name one broker."""
        return cls(home.resolve() / "broker")

    @property
    def cluster_file(self) -> Path:
        """Cluster id and ports, chosen once."""
        return self.root / "cluster.json"

    @property
    def change_lock(self) -> Path:
        """Held exclusively by a process that starts or stops the broker."""
        return self.root / "change.lock"

    @property
    def users_lock(self) -> Path:
        """Held shared by every process that uses the broker; free when none does."""
        return self.root / "users.lock"

    @property
    def ending_lock(self) -> Path:
        """Held shared by every watchdog whose node ends because no process uses the broker."""
        return self.root / "ending.lock"

    @property
    def keep_file(self) -> Path:
        """While this file exists, the broker runs on without users."""
        return self.root / "keep"

    def node_dir(self, node_id: int) -> Path:
        """Everything of one node; its JVM's working directory."""
        return self.root / f"node-{node_id}"


class FileLock:
    """An advisory lock on a file, shared or exclusive. The file itself stays and has no meaning."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def try_acquire(self, *, shared: bool = False) -> bool:
        """Take the lock, or change a held one between shared and exclusive; False if another process prevents it.

        After a failed change the lock is not held.
        """
        if self._descriptor is None:
            self._descriptor = self._open()
        mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(self._descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            return False
        except OSError as error:
            self.release()
            raise EmbeddedBrokerError(
                f"{self.path} cannot be locked: {error.strerror}; its file system has no locks. Set DRIFTLINE_HOME "
                "(broker state) or XDG_CACHE_HOME (downloads) to a folder on a local disk."
            ) from error
        return True

    def _open(self) -> int:
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise EmbeddedBrokerError(
                f"the lock file {self.path} cannot be opened: {error.strerror}. Check owner and rights of its folder."
            ) from error

    def acquire(self, deadline_s: float, waiting_for: str, *, shared: bool = False, report: Report = quiet) -> Self:
        """Take the lock; wait for it until ``deadline_s`` of ``time.monotonic`` and report a long wait.

        Raises:
            EmbeddedBrokerError: the deadline passed; names what was waited for.
        """
        if self.try_acquire(shared=shared):
            return self
        report_at_s = time.monotonic() + _REPORT_AFTER_S
        while not self.try_acquire(shared=shared):
            if time.monotonic() >= report_at_s:
                report(f"waiting for {waiting_for}")
                report_at_s = math.inf
            if time.monotonic() >= deadline_s:
                raise EmbeddedBrokerError(
                    f"gave up waiting for {waiting_for}: it still holds {self.path}. "
                    "Try again when it is done, or look for a hanging process that holds this file open."
                )
            time.sleep(_RETRY_S)
        return self

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor is not None

    def release(self) -> None:
        """Drop the lock. Idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
