"""Makes the ahead-of-time cache: by a throw-away broker in a JVM of its own, never by one that is in use.

In the background it starts when a broker that had no cache has stopped, takes only processor time that nobody else
wants, and ends by itself. Two makers do not collide: the second one sees the first and leaves.
"""

import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from driftline.broker.embedded import aot
from driftline.broker.embedded.ending import end
from driftline.broker.embedded.filelock import FileLock
from driftline.broker.embedded.jars import ensure_jars
from driftline.broker.embedded.node import Node
from driftline.broker.embedded.paths import Layout, make_dir
from driftline.broker.embedded.rehearsal import rehearse
from driftline.broker.embedded.report import Report, quiet
from driftline.broker.embedded.starting import await_ready
from driftline.broker.embedded.state import new_cluster, save_cluster
from driftline.errors import EmbeddedBrokerError

_READY_TIMEOUT_S = 180.0
_ASSEMBLY_TIMEOUT_S = 180.0
_DETACH_TIMEOUT_S = 20.0
_TRAINING_PREFIX = "training-"


def prepare(report: Report = quiet) -> Path | None:
    """Fetch the jars and make the ahead-of-time cache if they are not there; takes some 20 s, once.

    Returns:
        The cache, or None if another process is making it.

    Raises:
        EmbeddedBrokerError: the jars could not be fetched or the cache could not be made.
    """
    class_path = ensure_jars(report)
    if found := aot.find(class_path):
        return found
    make_dir(aot.aot_dir(), "the ahead-of-time cache")
    with FileLock(aot.aot_dir() / "make.lock") as lock:
        if not lock.try_acquire():
            report("another process is making the ahead-of-time cache")
            return None
        return aot.find(class_path) or _make(class_path, report)


def _make(class_path: Sequence[Path], report: Report) -> Path:
    report("making the ahead-of-time cache with a throw-away broker, once")
    for left_over in aot.aot_dir().glob(f"{_TRAINING_PREFIX}*"):
        shutil.rmtree(left_over, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_TRAINING_PREFIX, dir=aot.aot_dir(), ignore_cleanup_errors=True) as folder:
        output = Path(folder) / "kafka.aot"
        _train(Path(folder), class_path, output)
        target = aot.aot_path(class_path)
        output.replace(target)
    aot.seal(target)
    aot.drop_unused()
    return target


def _train(folder: Path, class_path: Sequence[Path], output: Path) -> None:
    """Start a broker, use it a little, stop it; its JVM writes ``output`` while it ends."""
    layout, cluster = Layout.of(folder), new_cluster()
    make_dir(layout.root, "a throw-away broker")
    save_cluster(layout.cluster_file, cluster)
    node = Node(layout, cluster, cluster.nodes[0])
    # Being the only user ties that broker to this process, however this process ends.
    with FileLock(layout.users_lock) as lease:
        lease.try_acquire(shared=True)
        try:
            node.prepare(class_path, [])
            launch = node.launch(class_path, [f"-XX:AOTCacheOutput={output}"], aot=False)
            if not await_ready({node: launch}, time.monotonic() + _READY_TIMEOUT_S):
                rehearse(cluster.bootstrap_servers)
        finally:
            end([node], _ASSEMBLY_TIMEOUT_S)
    if not output.exists():
        raise EmbeddedBrokerError(f"the JVM wrote no ahead-of-time cache.{node.log_tail()}")


def prepare_later() -> None:
    """Start ``prepare`` in the background, independent of this process; if that fails, nothing is lost but time."""
    command = [sys.executable, "-m", __package__]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(  # noqa: S603 - our own module
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_DETACH_TIMEOUT_S,
            check=False,
        )
