"""The jars in the user's cache: fetched once, each checked against the lock file before it gets its name."""

import hashlib
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from driftline.broker.embedded import fetch
from driftline.broker.embedded.filelock import FileLock
from driftline.broker.embedded.lockfile import KAFKA_VERSION, Jar, load_lock, lock_digest
from driftline.broker.embedded.paths import cache_root, make_dir
from driftline.broker.embedded.report import Report, quiet
from driftline.broker.embedded.state import write_atomically
from driftline.errors import EmbeddedBrokerError

_PARALLEL = 4
_REPORT_EVERY_S = 0.5
_LOCK_WAIT_S = 900.0
_MARKER = "verified.json"


def jars_dir() -> Path:
    """Return the folder of the jars that the lock file names."""
    return cache_root() / f"kafka-{KAFKA_VERSION}-{lock_digest()}"


def ensure_jars(report: Report = quiet) -> list[Path]:
    """Return the class path; the first call downloads about 45 MB, later ones compare sizes and times only.

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
    path = fetch.fetch_jar(jar, staging / jar.file_name)
    if not _is_whole(jar, path):
        raise EmbeddedBrokerError(
            f"{jar.coordinates} was downloaded but is not the locked jar: {path.stat().st_size} bytes instead of "
            f"{jar.size}, or another SHA-256. The repository or something on the way to it changed or cut it."
        )
    # The name appears only with the whole content behind it, so a crash leaves no half jar on the class path.
    with path.open("rb") as content:
        os.fsync(content.fileno())
    path.replace(folder / jar.file_name)
    progress.add(jar.size)


class _Progress:
    """Counts bytes over threads and reports now and then."""

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
