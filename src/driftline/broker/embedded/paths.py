"""Where things lie: what can be fetched again in the user's cache, what must be kept under ``$DRIFTLINE_HOME``."""

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from driftline.errors import EmbeddedBrokerError

MIN_FREE_BYTES = 64 * 1024 * 1024
"""Below this a broker would start and then die with all its log directories failed."""


def cache_root() -> Path:
    """Return driftline's folder in the user's cache directory; it may not exist yet."""
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "driftline"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "driftline"
    return Path.home() / ".cache" / "driftline"


def default_home() -> Path:
    """Return ``$DRIFTLINE_HOME``, or ``.driftline`` in the working directory."""
    return Path(os.environ.get("DRIFTLINE_HOME") or ".driftline")


def make_dir(path: Path, purpose: str) -> Path:
    """Create ``path`` with its parents and prove that it can be written.

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


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one broker. All of them survive a crash; none needs repair after one.

    Attributes:
        root: ``$DRIFTLINE_HOME/broker``, absolute.
    """

    root: Path

    @classmethod
    def of(cls, home: Path) -> "Layout":
        """Return the layout under ``home`` with links resolved, so that two spellings are one broker."""
        return cls(home.resolve() / "broker")

    @property
    def cluster_file(self) -> Path:
        """Cluster id and ports, chosen once."""
        return self.root / "cluster.json"

    @property
    def change_lock(self) -> Path:
        """Held, exclusively, by whoever starts or stops the broker."""
        return self.root / "change.lock"

    @property
    def users_lock(self) -> Path:
        """Held, shared, by every process that uses the broker: free means that nobody does."""
        return self.root / "users.lock"

    @property
    def ending_lock(self) -> Path:
        """Held, shared, by every watchdog whose node ends because nobody uses the broker."""
        return self.root / "ending.lock"

    @property
    def keep_file(self) -> Path:
        """While it is there, the broker runs on without users."""
        return self.root / "keep"

    def node_dir(self, node_id: int) -> Path:
        """Everything of one node; its JVM's working directory."""
        return self.root / f"node-{node_id}"
