"""Kafka's jars in the user's cache: each is fetched once and checked against the committed lock file.

The lock file lists coordinates, size and SHA-256 of every jar. Nothing else is ever put on the class path.
"""

import hashlib
import json
import os
import shutil
import tempfile
import threading
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from driftline.broker.embedded.files import FileLock, Report, cache_root, make_dir, quiet, write_atomically
from driftline.errors import EmbeddedBrokerError

KAFKA_VERSION = "4.4.0"
ROOTS = (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", "org.slf4j:slf4j-simple:1.7.36")
"""The jars that are asked for; the lock file holds these and everything they need."""
LOCK_NAME = "jars.lock.toml"

_FETCH_TIMEOUT_S = 30
"""Of one silent connection; a slow one that keeps sending may take longer."""
_PARALLEL = 4
_REPORT_EVERY_S = 0.5
_LOCK_WAIT_S = 900.0
_MARKER = "verified.json"


@dataclass(frozen=True, slots=True)
class Jar:
    """One locked jar. ``size`` is in bytes, ``sha256`` in hex."""

    group: str
    artifact: str
    version: str
    size: int
    sha256: str

    @property
    def coordinates(self) -> str:
        """``group:artifact:version``."""
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file_name(self) -> str:
        """Its name in the cache."""
        return f"{self.artifact}-{self.version}.jar"


def lock_text() -> str:
    """Return the committed lock file."""
    return resources.files(__package__).joinpath(LOCK_NAME).read_text(encoding="utf-8")


def load_lock() -> tuple[Jar, ...]:
    """Return the locked jars in class path order."""
    return tuple(Jar(**entry) for entry in tomllib.loads(lock_text())["jar"])


def jars_dir() -> Path:
    """Return the folder of the locked jars; another lock file has another folder."""
    digest = hashlib.sha256(lock_text().encode()).hexdigest()[:16]
    return cache_root() / f"kafka-{KAFKA_VERSION}-{digest}"


def ensure_jars(report: Report = quiet) -> list[Path]:
    """Return the class path; the first call downloads about 45 MB, later ones compare only sizes and times.

    Raises:
        EmbeddedBrokerError: a jar is missing or damaged and could not be fetched, or the cache cannot be written.
    """
    jars, folder = load_lock(), jars_dir()
    if _marker_holds(jars, folder):
        return [folder / jar.file_name for jar in jars]
    make_dir(folder, "the cache of Kafka's jars")
    waiting_for = "another process that is fetching Kafka's jars"
    lock = FileLock(folder / "fetch.lock")
    with lock.acquire(time.monotonic() + _LOCK_WAIT_S, waiting_for, report=report):
        missing = [jar for jar in jars if not _is_whole(jar, folder / jar.file_name)]
        _fetch_all(missing, folder, report)
        write_atomically(folder / _MARKER, json.dumps(_fingerprint(jars, folder)))
    return [folder / jar.file_name for jar in jars]


def _fingerprint(jars: Sequence[Jar], folder: Path) -> dict[str, list[int]]:
    stats = {jar.file_name: (folder / jar.file_name).stat() for jar in jars}
    return {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()}


def _marker_holds(jars: Sequence[Jar], folder: Path) -> bool:
    try:
        kept = json.loads((folder / _MARKER).read_text(encoding="utf-8"))
        return bool(kept == _fingerprint(jars, folder))
    except (OSError, ValueError):
        return False


def _is_whole(jar: Jar, path: Path) -> bool:
    try:
        return path.stat().st_size == jar.size and hashlib.sha256(path.read_bytes()).hexdigest() == jar.sha256
    except OSError:
        return False


def _fetch_all(jars: Sequence[Jar], folder: Path, report: Report) -> None:
    if not jars:
        return
    progress = _Progress(sum(jar.size for jar in jars), report)
    staging = Path(tempfile.mkdtemp(prefix=".fetch-", dir=folder))
    try:
        with ThreadPoolExecutor(_PARALLEL) as pool:
            tasks = [pool.submit(_fetch_one, jar, staging, folder, progress) for jar in jars]
            try:
                for task in tasks:
                    task.result()
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
    except EmbeddedBrokerError as error:
        raise EmbeddedBrokerError(
            "the first start of the embedded broker needs the network once, to fetch Kafka's jars "
            f"({sum(jar.size for jar in jars) / 1e6:.0f} MB) through jgo. Without a network, copy {folder} from a "
            f"machine that has it, or give --bootstrap-servers of a running Kafka. What went wrong: {error}"
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _fetch_one(jar: Jar, staging: Path, folder: Path, progress: "_Progress") -> None:
    path = fetch_jar(jar, staging / jar.file_name)
    if not _is_whole(jar, path):
        raise EmbeddedBrokerError(
            f"{jar.coordinates} was downloaded but is not the locked jar: {path.stat().st_size} bytes instead of "
            f"{jar.size}, or another SHA-256. The repository or a proxy changed or cut it."
        )
    # The file gets its name only when its content is complete, so a crash leaves no half jar on the class path.
    with path.open("rb") as content:
        os.fsync(content.fileno())
    path.replace(folder / jar.file_name)
    progress.add(jar.size)


def fetch_jar(jar: Jar, folder: Path) -> Path:
    """Download ``jar`` somewhere under ``folder`` and return its path; does not check its content.

    Repositories and mirrors are jgo's: its own default, and what its settings file adds or replaces.

    Raises:
        EmbeddedBrokerError: jgo is not installed, or no repository has the jar.
    """
    try:
        from jgo.config import GlobalSettings  # noqa: PLC0415 - half a second, and an optional dependency
        from jgo.constants import MAVEN_CENTRAL_URL  # noqa: PLC0415
        from jgo.maven import MavenContext  # noqa: PLC0415
    except ImportError as error:
        raise EmbeddedBrokerError(
            f"the embedded broker needs the Python package {error.name!r}: pip install 'driftline[embedded]'."
        ) from error
    repositories = {"central": MAVEN_CENTRAL_URL, **GlobalSettings.load().repositories}
    context = MavenContext(repo_cache=folder, local_repos=[], remote_repos=repositories, timeout=_FETCH_TIMEOUT_S)
    try:
        return Path(context.create_dependency(jar.coordinates).artifact.resolve())
    # requests, urllib3 and jgo (a bare RuntimeError) each raise errors of their own, with one meaning here.
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise EmbeddedBrokerError(f"{jar.coordinates} could not be downloaded ({reason}).") from error


class _Progress:
    """Counts bytes over threads and reports from time to time."""

    def __init__(self, total_bytes: int, report: Report) -> None:
        self._total, self._done, self._report = total_bytes, 0, report
        self._lock, self._next_s = threading.Lock(), 0.0

    def add(self, count: int) -> None:
        with self._lock:
            self._done += count
            now_s = time.monotonic()
            if now_s < self._next_s and self._done < self._total:
                return
            self._next_s = now_s + _REPORT_EVERY_S
            self._report(
                f"fetching Apache Kafka {KAFKA_VERSION}: {self._done / 1e6:.1f} of {self._total / 1e6:.1f} MB, once"
            )
