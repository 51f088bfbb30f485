"""The embedded broker as its users see it: start, use, stop."""

import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from driftline.broker.embedded import aot, ports, state
from driftline.broker.embedded.filelock import FileLock
from driftline.broker.embedded.jars import Report, ensure_jars, quiet
from driftline.broker.embedded.lockfile import KAFKA_VERSION
from driftline.broker.embedded.node import Node
from driftline.broker.embedded.paths import Layout, make_dir
from driftline.errors import EmbeddedBrokerError

_STOP_TIMEOUT_S = 30.0
_PORT_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """What is known of the broker of one home.

    Attributes:
        state: ``ready``, ``starting`` (a process that does not answer yet), ``stopped``, or ``died`` (it was started
            and its process is gone without a stop; a start repairs that).
        bootstrap_servers: its address, kept over restarts; None before the first start.
        pid: process id of the JVM, None if there is none.
        keep: it runs on when nobody uses it.
        aot: it was started with an ahead-of-time cache.
        home: ``$DRIFTLINE_HOME``.
        log: where its JVM writes.
        kafka: version of Apache Kafka.
    """

    state: str
    bootstrap_servers: str | None
    pid: int | None
    keep: bool
    aot: bool
    home: Path
    log: Path
    kafka: str = KAFKA_VERSION

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self.pid is not None


class EmbeddedBroker:
    """One single-node Kafka for each home, shared by all processes that use that home.

    By default the broker lives as long as somebody uses it: whoever called ``start`` and neither called ``release``
    nor died. With ``keep`` it runs on until ``stop``. As a context manager it starts and releases.

    Args:
        home: ``$DRIFTLINE_HOME``; the broker's state lies in its subfolder ``broker``.
        keep: let it run on when nobody uses it.
        port: the clients' port; chosen once and kept by default.
        report: told what is waited for: downloads, other processes.
    """

    def __init__(self, home: Path, *, keep: bool = False, port: int | None = None, report: Report = quiet) -> None:
        self.home = home
        self._keep, self._port, self._report = keep, port, report
        self._layout = Layout.of(home)
        self._users = FileLock(self._layout.users_lock)

    def start(self, timeout_s: float = 60.0) -> str:
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
            self._users.acquire(deadline_s, "the old broker to end", shared=True)
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
            ended = [node.terminate(timeout_s) for node in self._nodes()]
        return any(ended)

    def release(self, timeout_s: float = _STOP_TIMEOUT_S) -> None:
        """Use the broker no more: stops it if it is not kept and nobody else uses it. Idempotent."""
        if not self._users.held:
            return
        with self._change(time.monotonic() + timeout_s):
            if self._users.try_acquire() and not self._layout.keep_file.exists():
                for node in self._nodes():
                    node.terminate(timeout_s)
            self._users.release()

    def kill(self) -> None:
        """End the broker's process as a crash would; ``start`` brings it back on the same data and address."""
        for node in self._nodes():
            node.kill()

    def status(self) -> BrokerStatus:
        """Look, and change nothing."""
        cluster = state.load_cluster(self._layout.cluster_file)
        if cluster is None:
            log = self._layout.node_dir(1) / "broker.log"
            return BrokerStatus("stopped", None, None, keep=False, aot=False, home=self.home, log=log)
        node = Node(self._layout, cluster, cluster.nodes[0])
        launch = node.running()
        return BrokerStatus(
            state=node.condition(),
            bootstrap_servers=cluster.bootstrap_servers,
            pid=launch.pid if launch else None,
            keep=self._layout.keep_file.exists(),
            aot=bool(launch and launch.aot),
            home=self.home,
            log=node.log,
        )

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

    def _change(self, deadline_s: float) -> FileLock:
        waiting_for = f"another process that starts or stops the broker of {self.home}"
        return FileLock(self._layout.change_lock).acquire(deadline_s, waiting_for)

    def _nodes(self) -> list[Node]:
        cluster = state.load_cluster(self._layout.cluster_file)
        return [Node(self._layout, cluster, address) for address in cluster.nodes] if cluster else []

    def _start(self, deadline_s: float) -> state.Cluster:
        cluster = state.load_cluster(self._layout.cluster_file) or state.new_cluster(broker_port=self._port)
        node = Node(self._layout, cluster, cluster.nodes[0])
        if launch := node.running():
            self._check_port(cluster)
            if node.wait_ready(launch, deadline_s):
                return cluster
        cluster = self._settle_ports(cluster, _PORT_WAIT_S if node.died() else 0.0)
        state.save_cluster(self._layout.cluster_file, cluster)
        node = Node(self._layout, cluster, cluster.nodes[0])
        try:
            self._launch(node, deadline_s)
        except BaseException:
            node.terminate(timeout_s=1.0)
            raise
        return cluster

    def _launch(self, node: Node, deadline_s: float) -> None:
        class_path = ensure_jars(self._report)
        cache = aot.find(class_path)
        node.prepare(class_path, aot.options(cache))
        if node.wait_ready(node.launch(class_path, aot.options(cache), aot=cache is not None), deadline_s):
            return
        if cache:
            # The cache is the one part that is not needed: without it the failure is gone, or is explained by the log.
            aot.drop(cache)
            if node.wait_ready(node.launch(class_path, [], aot=False), deadline_s):
                return
        raise EmbeddedBrokerError(f"the broker ended while it started.{node.log_tail()}")

    def _check_port(self, cluster: state.Cluster) -> None:
        kept = cluster.nodes[0].broker_port
        if self._port not in (None, kept):
            raise EmbeddedBrokerError(
                f"the broker of {self.home} runs at port {kept}, not {self._port}. "
                "Stop it first (driftline broker stop), or leave the port out."
            )

    def _settle_ports(self, cluster: state.Cluster, patience_s: float) -> state.Cluster:
        """Return the cluster with ports that are free now; a process that just died may still be letting go of its."""
        node = cluster.nodes[0]
        wanted = node.broker_port if self._port is None else self._port
        taken = ports.still_taken((wanted, node.controller_port), patience_s)
        if not taken and wanted == node.broker_port:
            return cluster
        if wanted in taken and not self._may_move():
            raise EmbeddedBrokerError(
                f"port {wanted} of this broker is in use by another process, and clients may be waiting for the "
                "broker there. End that process, or choose another port (driftline broker start --port PORT) and give "
                "clients the new address."
            )
        if wanted in taken:
            moved = state.choose_ports(node.node_id, {wanted})
            self._report(f"port {wanted} is in use by another process; the broker moves to port {moved.broker_port}")
        else:
            moved = state.choose_ports(node.node_id, {wanted}, broker_port=wanted)
        return state.with_node(cluster, moved)

    def _may_move(self) -> bool:
        """Whether nobody can be waiting at the kept address: it was not asked for, and no other process uses it."""
        if self._keep or self._port is not None or self._layout.keep_file.exists():
            return False
        alone = self._users.try_acquire()
        return self._users.try_acquire(shared=True) and alone
