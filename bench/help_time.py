"""Seconds from nothing to the end of ``driftline --help``."""

import statistics
import subprocess
import sys
import time
from pathlib import Path


def help_seconds(times: int = 9) -> dict[str, float]:
    """Return ``help_s``, the median, and the fastest."""
    command = Path(sys.executable).with_name("driftline")
    taken_s: list[float] = []
    for _ in range(times):
        began_s = time.monotonic()
        subprocess.run([command, "--help"], check=True, stdout=subprocess.DEVNULL)
        taken_s.append(time.monotonic() - began_s)
    return {"help_s": statistics.median(taken_s), "help_s_min": min(taken_s)}
