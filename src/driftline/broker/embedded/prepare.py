"""Makes the AOT cache: with a throw-away broker in a JVM of its own, never with one that is in use.

In the background it starts after a broker without a cache has stopped, uses only idle processor time, and ends by
itself. Two makers do not collide: the second one sees the first and leaves.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from driftline.broker.embedded.cluster import new_cluster, save_cluster
from driftline.broker.embedded.files import FileLock, Layout, Report, make_dir, quiet
from driftline.broker.embedded.jars import ensure_jars
from driftline.broker.embedded.java import cache_dir, cache_path, drop_unused_caches, find_cache, seal_cache
from driftline.broker.embedded.node import Node
from driftline.broker.embedded.nodes import await_ready, end
from driftline.broker.port import Assigned, Broker, Reader, Start, TopicSpec
from driftline.errors import BrokerError, EmbeddedBrokerError, TopicMissing

_READY_TIMEOUT_S = 180.0
_ASSEMBLY_TIMEOUT_S = 180.0
_DETACH_TIMEOUT_S = 20.0
_BACKGROUND_TIMEOUT_S = 600
_TRAINING_PREFIX = "training-"

_TOPIC, _COMPACTED = "rehearsal", "rehearsal-compacted"
_RECORDS, _RECORD_BYTES = 200, 64 * 1024
_TIMEOUT_S = 30.0


def prepare(report: Report = quiet) -> Path | None:
    """Fetch the jars and make the AOT cache if they are missing; takes about 20 s, once.

    Returns:
        The cache, or None if another process is making it.

    Raises:
        EmbeddedBrokerError: the jars could not be fetched or the cache could not be made.
    """
    class_path = ensure_jars(report)
    if found := find_cache(class_path):
        return found
    make_dir(cache_dir(), "the ahead-of-time cache")
    with FileLock(cache_dir() / "make.lock") as lock:
        if not lock.try_acquire():
            report("another process is making the ahead-of-time cache")
            return None
        return find_cache(class_path) or _make(class_path, report)


def _make(class_path: Sequence[Path], report: Report) -> Path:
    report("making the ahead-of-time cache with a throw-away broker, once")
    for left_over in cache_dir().glob(f"{_TRAINING_PREFIX}*"):
        shutil.rmtree(left_over, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_TRAINING_PREFIX, dir=cache_dir(), ignore_cleanup_errors=True) as folder:
        output = Path(folder) / "kafka.aot"
        _train(Path(folder), class_path, output)
        target = cache_path(class_path)
        output.replace(target)
    seal_cache(target)
    drop_unused_caches()
    return target


def _train(folder: Path, class_path: Sequence[Path], output: Path) -> None:
    """Start a broker, use it a little, stop it; its JVM writes ``output`` while it ends."""
    layout, cluster = Layout.of(folder), new_cluster()
    make_dir(layout.root, "a throw-away broker")
    save_cluster(layout.cluster_file, cluster)
    node = Node(layout, cluster, cluster.nodes[0])
    # This process is the broker's only user, so the broker ends with it, however it ends.
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


def rehearse(bootstrap_servers: str) -> None:
    """Send the requests that every run begins with, while the JVM records; an error only ends the rehearsal early."""
    from driftline.broker.kafka import KafkaBroker, KafkaSettings  # noqa: PLC0415 - a JVM can be started without it

    with contextlib.suppress(BrokerError):
        _rehearse(KafkaBroker(KafkaSettings(bootstrap_servers)))


def _rehearse(broker: Broker) -> None:
    specs = [TopicSpec(_TOPIC, 2), TopicSpec(_COMPACTED, 1, {"cleanup.policy": "compact"})]
    with contextlib.closing(broker.admin()) as admin:
        admin.create(specs)
        with contextlib.closing(broker.producer()) as producer:
            for number in range(_RECORDS):
                producer.send(_TOPIC, number % 2, bytes(_RECORD_BYTES), key=b"%d" % number)
                producer.send(_COMPACTED, 0, bytes(100), key=b"%d" % (number % 10))
                producer.flush(_TIMEOUT_S)
        with contextlib.closing(broker.reader()) as reader:
            _read(reader)
        _join(broker)
        admin.bounds(_TOPIC)
        admin.delete([spec.name for spec in specs])


def _read(reader: Reader) -> None:
    deadline_s = time.monotonic() + _TIMEOUT_S
    with contextlib.suppress(TopicMissing):
        reader.read(_TOPIC, 0, Start.BEGINNING)
        reader.read(_COMPACTED, 0, Start.BEGINNING)
    seen = 0
    while seen < _RECORDS and time.monotonic() < deadline_s:
        seen += reader.poll(0.1) is not None


def _join(broker: Broker) -> None:
    deadline_s = time.monotonic() + _TIMEOUT_S
    with contextlib.closing(broker.group_reader(_TOPIC, "rehearsal", "member", Start.END)) as member:
        while not isinstance(member.poll(0.1), Assigned) and time.monotonic() < deadline_s:
            pass


def prepare_later() -> None:
    """Start `prepare` in a process of its own; if that fails, only time is lost."""
    command = [sys.executable, "-c", f"from {__name__} import prepare_in_background as main; main()"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(  # noqa: S603 - our own module
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_DETACH_TIMEOUT_S,
            check=False,
        )


def prepare_in_background() -> None:
    """Detach from the caller, then `prepare` at idle priority: the main function of that process."""
    if os.fork():
        return
    os.setsid()
    # The default action of SIGALRM ends this process wherever it waits, and with it the throw-away broker.
    signal.alarm(_BACKGROUND_TIMEOUT_S)
    os.nice(19)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with contextlib.suppress(EmbeddedBrokerError):
        prepare()
