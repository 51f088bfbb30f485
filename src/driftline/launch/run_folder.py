"""Where a run's files lie on this machine, and that only one ``train`` of this home starts processes for it."""

from pathlib import Path

from driftline.broker.embedded.files import FileLock
from driftline.errors import UsageError


def run_folder(home: Path, run: str) -> Path:
    """Folder of a run's logs; its name is that of the run, which is always a legal file name."""
    return home / "runs" / run


def lock_run(home: Path, run: str) -> FileLock | None:
    """Return a held lock on the run's folder, which is made if need be; None if another process holds it.

    Raises:
        UsageError: the folder cannot be made.
    """
    folder = run_folder(home, run)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror or error}; --home names another folder") from error
    lock = FileLock(folder / "train.lock")
    return lock if lock.try_acquire() else None
