"""The ahead-of-time cache: makes a start two to three times faster, and is never needed.

Its name says what it was made from, so one that does not fit is never offered to a JVM. One that was cut or changed
afterwards is seen by its size and time. One that still does harm is dropped by whoever sees a start fail with it.
"""

import contextlib
import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path

from driftline.broker.embedded.java import fingerprint
from driftline.broker.embedded.paths import cache_root
from driftline.broker.embedded.state import write_atomically

_UNUSED_S = 30 * 24 * 3600.0
_RECIPE = 1
"""Raised when the throw-away broker does something else, so that existing caches are made anew."""


def aot_dir() -> Path:
    """Return the folder of ahead-of-time caches."""
    return cache_root() / "aot"


def aot_path(class_path: Sequence[Path]) -> Path:
    """Return where the cache for this Java runtime, these options and these jars belongs."""
    key = hashlib.sha256(f"{_RECIPE} {fingerprint(class_path)}".encode()).hexdigest()[:16]
    return aot_dir() / f"kafka-{key}.aot"


def find(class_path: Sequence[Path]) -> Path | None:
    """Return the finished and unchanged cache for ``class_path``; drops a changed one."""
    path = aot_path(class_path)
    try:
        kept = json.loads(_marker(path).read_text(encoding="utf-8"))
        if kept == _size_and_time(path):
            _marker(path).touch()
            return path
    except (OSError, ValueError):
        pass
    drop(path)
    return None


def seal(path: Path) -> None:
    """Declare the cache at ``path`` finished: only now is it used."""
    write_atomically(_marker(path), json.dumps(_size_and_time(path)))


def drop(path: Path) -> None:
    """Delete a cache; a JVM that uses it keeps its own mapping."""
    _marker(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def drop_unused() -> None:
    """Delete caches that nobody looked for in a month. Others may be another environment's, with a Java of its own."""
    for marker in aot_dir().glob("kafka-*.json"):
        with contextlib.suppress(OSError):
            if time.time() - marker.stat().st_mtime > _UNUSED_S:
                drop(marker.with_suffix(".aot"))


def options(path: Path | None) -> list[str]:
    """Return the JVM options that use the cache at ``path``, if there is one."""
    return [f"-XX:AOTCache={path}"] if path else []


def _marker(path: Path) -> Path:
    return path.with_suffix(".json")


def _size_and_time(path: Path) -> list[int]:
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns]
