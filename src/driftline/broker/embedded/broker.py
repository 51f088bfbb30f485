"""The embedded broker as its users see it: start, use, stop."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from driftline.broker.embedded import aot, state
from driftline.broker.embedded.address import settle
from driftline.broker.embedded.filelock import FileLock
from driftline.broker.embedded.jars import ensure_jars
from driftline.broker.embedded.lockfile import KAFKA_VERSION
from driftline.broker.embedded.node import Node
from driftline.broker.embedded.paths import Layout, make_dir
from driftline.broker.embedded.ports import HOST
from driftline.broker.embedded.prepare import prepare_later
from driftline.broker.embedded.properties import Listener
from driftline.broker.embedded.report import Report, quiet
from driftline.broker.embedded.status import BrokerStatus, look
from driftline.errors import EmbeddedBrokerError

START_TIMEOUT_S = 120.0
"""A start takes seconds, but a machine that is busy with other things can make it a minute."""

_STOP_TIMEOUT_S = 30.0
_PORT_WAIT_S = 5.0


class EmbeddedBroker:
    """One single-node Kafka for each home, shared by all processes that use that home.

    By default the broker lives as long as somebody uses it: whoever called ``start`` and neither called ``release``
    nor died. With ``keep`` it runs on until ``stop``. As a context manager it starts and releases.

    Args:
        home: ``$DRIFTLINE_HOME``; the broker's state lies in its subfolder ``broker``.
        keep: let it run on when nobody uses it.
        port: the clients' port; chosen once and kept by default.
        prepare: after a stop, have the ahead-of-time cache made in the background if there is none.
        report: told what is waited for: downloads, other processes.
        listeners: more addresses for clients, for example one with TLS.
        properties: settings of Kafka that are added, or replace one of ours.
    """

    def __init__(
        self,
        home: Path,
        *,
        keep: bool = False,
        port: int | None = None,
        prepare: bool = True,
        report: Report = quiet,
        listeners: Sequence[Listener] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.home = home
        self._listeners, self._properties = listeners, properties
        self._keep, self._port, self._prepare_later, self._report = keep, port, prepare, report
        self._layout = Layout.of(home)
        self._users = FileLock(self._layout.users_lock)

    def start(self, timeout_s: float = START_TIMEOUT_S) -> str:
        """Start the broker, or find it running; returns its bootstrap servers once it answers metadata requests.

        Args:
            timeout_s: bound of the start itself; a first download is not counted.

        Raises:
            EmbeddedBrokerError: it did not start; says why and what to do.
        """
        make_dir(self._layout.root, "the broker's state")
        if not self.status().running:
            ensure_jars(self._report)
        deadline_s = time.monotonic() + timeout_s
        with self._change(deadline_s):
            self._users.acquire(deadline_s, "the old broker to end", shared=True, report=self._report)
            try:
                cluster = self._start(deadline_s)
                if self._keep:
                    self._layout.keep_file.touch()
            except BaseException:
                self._users.release()
                raise
            if self._keep:
                self._users.release()
        return cluster.bootstrap_servers

    def stop(self, timeout_s: float = _STOP_TIMEOUT_S) -> bool:
        """Stop the broker, whoever started it or uses it; False if it was not running.

        Args:
            timeout_s: how long it may take to end by itself before it is killed.

        Raises:
            EmbeddedBrokerError: its process cannot be ended.
        """
        self._users.release()
        if not self._layout.cluster_file.exists():
            return False
        with self._change(time.monotonic() + timeout_s):
            self._layout.keep_file.unlink(missing_ok=True)
            return self._end(timeout_s)

    def release(self, timeout_s: float = _STOP_TIMEOUT_S) -> None:
        """Use the broker no more: stops it if it is not kept and nobody else uses it. Idempotent."""
        if not self._users.held:
            return
        if not self._layout.root.exists():
            # Somebody removed the home; the broker's watchdog sees that too and ends it.
            self._users.release()
            return
        with self._change(time.monotonic() + timeout_s):
            if self._users.try_acquire() and not self._layout.keep_file.exists():
                self._end(timeout_s)
            self._users.release()

    def kill(self) -> None:
        """End the broker's process as a crash would; ``start`` brings it back on the same data and address."""
        for node in self._nodes():
            node.kill()

    def status(self) -> BrokerStatus:
        """Look, and change nothing."""
        return look(self.home, self._layout)

    @property
    def bootstrap_servers(self) -> str:
        """Address for clients.

        Raises:
            EmbeddedBrokerError: no broker was ever started here.
        """
        cluster = state.load_cluster(self._layout.cluster_file)
        if cluster is None:
            raise EmbeddedBrokerError(f"{self.home} has no broker yet; start one with: driftline broker start.")
        return cluster.bootstrap_servers

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _end(self, timeout_s: float) -> bool:
        nodes = self._nodes()
        ended = [launch for node in nodes if (launch := node.running())]
        for node in nodes:
            node.terminate(timeout_s)
        if self._prepare_later and any(not launch.aot for launch in ended):
            prepare_later()
        return bool(ended)

    def _change(self, deadline_s: float) -> FileLock:
        waiting_for = f"another process that starts or stops the broker of {self.home}"
        return FileLock(self._layout.change_lock).acquire(deadline_s, waiting_for, report=self._report)

    def _nodes(self) -> list[Node]:
        cluster = state.load_cluster(self._layout.cluster_file)
        return [Node(self._layout, cluster, address) for address in cluster.nodes] if cluster else []

    def _start(self, deadline_s: float) -> state.Cluster:
        cluster = state.load_cluster(self._layout.cluster_file) or state.new_cluster(broker_port=self._port)
        node = Node(self._layout, cluster, cluster.nodes[0])
        if launch := node.running():
            self._refuse_other_port(cluster.nodes[0].broker_port)
            if node.wait_ready(launch, deadline_s):
                return cluster
        patience_s = _PORT_WAIT_S if node.died() else 0.0
        address = settle(node.address, self._port, patience_s, may_move=self._may_move, report=self._report)
        cluster = state.with_node(cluster, address)
        state.save_cluster(self._layout.cluster_file, cluster)
        node = Node(self._layout, cluster, address)
        try:
            self._launch(node, deadline_s)
        except BaseException:
            node.terminate(timeout_s=1.0)
            raise
        return cluster

    def _launch(self, node: Node, deadline_s: float) -> None:
        class_path = ensure_jars(self._report)
        self._report(f"starting Apache Kafka {KAFKA_VERSION} at {HOST}:{node.address.broker_port}")
        cache = aot.find(class_path)
        node.prepare(class_path, aot.options(cache), self._properties, self._listeners)
        launch = node.launch(class_path, aot.options(cache), aot=cache is not None)
        ready = node.wait_ready(launch, deadline_s)
        if cache and not ready:
            # The cache is the one part that is not needed: without it the failure is gone, or is explained by the log.
            self._drop(cache, "the broker ended while it started with it")
            ready = node.wait_ready(node.launch(class_path, [], aot=False), deadline_s)
        elif cache and node.refused_cache():
            self._drop(cache, "the JVM refused it")
            node.note_without_cache(launch)
        if ready:
            return
        raise EmbeddedBrokerError(f"the broker ended while it started.{node.log_tail()}")

    def _drop(self, cache: Path, reason: str) -> None:
        self._report(f"the ahead-of-time cache is dropped, {reason}; another one will be made")
        aot.drop(cache)

    def _refuse_other_port(self, port: int) -> None:
        if self._port not in (None, port):
            raise EmbeddedBrokerError(
                f"the broker of {self.home} runs at port {port}, not {self._port}. "
                "Stop it first (driftline broker stop), or leave the port out."
            )

    def _may_move(self) -> bool:
        """Whether nobody can be waiting at the kept address: it was not asked for, and no other process uses it."""
        if self._keep or self._port is not None or self._layout.keep_file.exists():
            return False
        alone = self._users.try_acquire()
        return self._users.try_acquire(shared=True) and alone
