"""Locks that the kernel drops when their holder dies, ``kill -9`` included."""

import fcntl
import math
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from driftline.broker.embedded.report import Report, quiet
from driftline.errors import EmbeddedBrokerError

_RETRY_S = 0.05
_REPORT_AFTER_S = 1.0


class FileLock:
    """An advisory lock on a file, shared or exclusive. The file stays; only the lock on it means anything."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def try_acquire(self, *, shared: bool = False) -> bool:
        """Take the lock, or change a held one between shared and exclusive; False if another process is in the way.

        A failed change of a held lock leaves it not held.
        """
        if self._descriptor is None:
            self._descriptor = self._open()
        mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(self._descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            return False
        return True

    def _open(self) -> int:
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise EmbeddedBrokerError(
                f"the lock file {self.path} cannot be opened: {error.strerror}. Check the folder's owner and rights."
            ) from error

    def acquire(self, deadline_s: float, waiting_for: str, *, shared: bool = False, report: Report = quiet) -> Self:
        """Take the lock, waiting until ``deadline_s`` on the monotonic clock; tells ``report`` if it takes long.

        Raises:
            EmbeddedBrokerError: the deadline passed; says what was waited for.
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
                    "Try again when it is done, or look for a hanging process that has this file open."
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
