"""Whether the disk of the embedded broker lasts for the run; said before it is full, for then the broker dies."""

import shutil
from pathlib import Path

from driftline.observe.run.disk_use import size
from driftline.observe.run.progress import Progress

LOOK_S = 5.0
"""Seconds between two looks at the disk."""

LOW_BYTES = 1 << 30
"""Below this much free space it is said, and again whenever half of it is gone."""

WAY_OUT = "make room, or stop and start a run with --retain checkpoint, or with a --home on another disk"


class DiskWatch:
    """Looks at one folder's disk. Knows no clock.

    Args:
        folder: of the broker; None if the Kafka is somebody else's, whose disks we cannot see.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._next_s = 0.0
        self._compared = False
        self._said_at = 2 * LOW_BYTES

    def look(self, seen: Progress, now_s: float) -> str:
        """Return what to say, if anything.

        Args:
            seen: the run, with what it takes of the disk in all.
            now_s: on any clock that only goes forward.
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
        if free >= LOW_BYTES or free > self._said_at / 2:
            return ""
        self._said_at = free
        return f"the disk of {self._folder} has only {size(free)} free: {WAY_OUT}"
