"""Warns before the disk of the embedded broker is full, because a full disk ends the broker."""

import shutil
from pathlib import Path

from rich.filesize import decimal as size

from driftline.observe.run.progress import Progress

LOOK_S = 5.0
"""Seconds between two looks at the disk."""

LOW_BYTES = 1 << 30
"""Below this free space there is a warning, and another whenever half of it is gone."""

WAY_OUT = "make room, or stop and start a run with --retain checkpoint, or with a --home on another disk"


class DiskWatch:
    """Watches the disk of one folder.

    Args:
        folder: of the broker; None for a Kafka whose disks this machine does not have.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._next_s = 0.0
        self._compared = False
        self._warned_at = 2 * LOW_BYTES

    def look(self, seen: Progress, now_s: float) -> str:
        """Return a warning, or nothing.

        Args:
            seen: progress of the run, with the disk space that it needs.
            now_s: seconds of any clock that never goes back.
        """
        if self._folder is None or now_s < self._next_s:
            return ""
        self._next_s = now_s + LOOK_S
        try:
            free = shutil.disk_usage(self._folder).free
        except OSError as error:
            gone, self._folder = self._folder, None
            return f"the disk of {gone} is not watched any longer: {error.strerror}"
        return self._at_start(seen, free) or self._later(free)

    def _at_start(self, seen: Progress, free: int) -> str:
        if self._compared or not seen.disk_bytes:
            return ""
        self._compared = True
        left = seen.disk_bytes - seen.wire_bytes
        if left <= free:
            return ""
        return f"the disk of {self._folder} has {size(free)} free, and the run takes about {size(left)} more: {WAY_OUT}"

    def _later(self, free: int) -> str:
        if free >= LOW_BYTES or free > self._warned_at / 2:
            return ""
        self._warned_at = free
        return f"the disk of {self._folder} has only {size(free)} free: {WAY_OUT}"
