"""The public object of the embedded broker: start, use, stop."""

import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from driftline.broker.embedded import cluster, process
from driftline.broker.embedded.cluster import Cluster, NodeAddress, check_number, refuse_other_number
from driftline.broker.embedded.files import FileLock, Layout, Report, make_dir, quiet
from driftline.broker.embedded.jars import ensure_jars
from driftline.broker.embedded.node import Node
from driftline.broker.embedded.nodes import Starter, end
from driftline.broker.embedded.prepare import prepare_later
from driftline.broker.embedded.process import Launch
from driftline.broker.embedded.properties import Listener
from driftline.broker.embedded.status import BrokerStatus, look
from driftline.errors import EmbeddedBrokerError, UsageError

START_TIMEOUT_S = 120.0
"""A start takes seconds, on a busy machine up to a minute."""

_STOP_TIMEOUT_S = 30.0
_PORT_WAIT_S = 5.0


class EmbeddedBroker:
    """One Kafka for each home, of one node or several, shared by all processes that use that home.

    By default the broker runs while a process uses it: from ``start`` to ``release``, or to the end of that process.
    With ``keep`` it runs on until ``stop``. As a context manager it starts and releases.

    Args:
        home: ``$DRIFTLINE_HOME``; the broker's state is in its subfolder ``broker``.
        keep: let it run on without users.
        port: port of its first node for clients; by default chosen once and kept.
        nodes: number of nodes of a new broker, odd. An existing broker keeps its number, and another one is refused.
            None: the number of the existing broker, or 1.
        prepare: after a stop, make the ahead-of-time cache in the background if there is none.
        report: receives lines about what is waited for: downloads, other processes.
        listeners: more addresses for clients, for example one with TLS.
        properties: settings of Kafka that add to or replace ours.

    Raises:
        UsageError: a broker cannot have that number of nodes.
    """

    def __init__(
        self,
        home: Path,
        *,
        keep: bool = False,
        port: int | None = None,
        nodes: int | None = None,
        prepare: bool = True,
        report: Report = quiet,
        listeners: Sequence[Listener] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.home = home
        self._wanted = None if nodes is None else check_number(nodes)
        self._listeners, self._properties = listeners, properties or {}
        self._keep, self._port, self._prepare_later, self._report = keep, port, prepare, report
        self._layout = Layout.of(home)
        self._users = FileLock(self._layout.users_lock)

    def start(self, timeout_s: float = START_TIMEOUT_S) -> str:
        """Start the broker, or find it running; start the nodes that do not run.

        Args:
            timeout_s: bound of the start itself; a first download is not counted.

        Returns:
            Its bootstrap servers, when every node answers metadata requests and knows the others.

        Raises:
            EmbeddedBrokerError: it did not start; says why and what to do.
            UsageError: the broker of this home has another number of nodes than the wanted one.
        """
        refuse_other_number(self.home, self.nodes, self._wanted)
        make_dir(self._layout.root, "the broker's state")
        if not self.nodes or not all(node.running() for node in self._nodes()):
            ensure_jars(self._report)
        deadline_s = time.monotonic() + timeout_s
        with self._change(deadline_s):
            self._become_user(deadline_s)
            try:
                started = self._start(deadline_s)
                if self._keep:
                    self._layout.keep_file.touch()
            except BaseException:
                self._users.release()
                raise
            if self._keep:
                self._users.release()
        return started.bootstrap_servers

    def stop(self, timeout_s: float = _STOP_TIMEOUT_S) -> bool:
        """Stop the broker, also when other processes use it; False if it was not running.

        Args:
            timeout_s: how long it may take to end before it is killed.

        Raises:
            EmbeddedBrokerError: its process cannot be ended.
        """
        self._users.release()
        if not self._layout.cluster_file.exists():
            return False
        with self._change(time.monotonic() + timeout_s):
            self._layout.keep_file.unlink(missing_ok=True)
            return self._end(timeout_s)

    @property
    def is_used(self) -> bool:
        """Whether this object uses the broker: from `start` to `release` or `stop`; never with ``keep``."""
        return self._users.held

    def release(self, timeout_s: float = _STOP_TIMEOUT_S) -> None:
        """Stop using the broker; it stops if it is not kept and no other process uses it. Idempotent."""
        if not self._users.held:
            return
        if not self._layout.root.exists():
            # The home was removed; the broker's watchdogs see that too and end it.
            self._users.release()
            return
        with self._change(time.monotonic() + timeout_s):
            if self._users.try_acquire() and not self._layout.keep_file.exists():
                self._end(timeout_s)
            self._users.release()

    def kill(self, node: int | None = None) -> bool:
        """End the process of one node, or of all, as a crash would; False if none was running.

        ``start`` and ``revive`` bring it back on the same data and address.

        Raises:
            UsageError: there is no such node.
        """
        killed = [one.kill() for one in (self._nodes() if node is None else [self._node(node)])]
        return any(killed)

    def signal(self, node: int, number: signal.Signals) -> Launch | None:
        """Signal a node's process, and no other; return its launch, None if it does not run.

        Raises:
            UsageError: there is no such node.
        """
        launch = self.running(node)
        return launch if launch is not None and process.send(launch, number) else None

    def running(self, node: int) -> Launch | None:
        """Return the launch of a node whose process runs, None if it does not run.

        Raises:
            UsageError: there is no such node.
        """
        return self._node(node).running()

    def revive(self, node: int, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start a node that does not run, and none of the others.

        Returns when the node and the running ones know each other. Without a majority of the nodes there is no quorum
        to join: then it returns as soon as the node's process exists.

        Raises:
            EmbeddedBrokerError: it did not start; says why and what to do.
            UsageError: there is no such node.
        """
        self._node(node)
        ensure_jars(self._report)
        deadline_s = time.monotonic() + timeout_s
        with self._change(deadline_s):
            self._settle_addresses([node])
            nodes = self._nodes()
            wanted = [one for one in nodes if one.address.node_id == node or one.running()]
            if 2 * len(wanted) > len(nodes):
                self._starter().bring_up(wanted, deadline_s)
            else:
                self._starter().launch([one for one in wanted if not one.running()])

    def status(self) -> BrokerStatus:
        """Return what is known of the broker; changes nothing."""
        return look(self.home, self._layout)

    @property
    def nodes(self) -> tuple[int, ...]:
        """Ids of its nodes; empty before the first start."""
        return tuple(node.address.node_id for node in self._nodes())

    @property
    def bootstrap_servers(self) -> str:
        """Addresses for clients.

        Raises:
            EmbeddedBrokerError: this home has no broker yet.
        """
        kept = self._cluster()
        if kept is None:
            raise EmbeddedBrokerError(f"{self.home} has no broker yet; start one with: driftline broker start.")
        return kept.bootstrap_servers

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _become_user(self, deadline_s: float) -> None:
        self._users.acquire(deadline_s, "the old broker to end", shared=True, report=self._report)
        # A process that waits here is a user already, so no further node decides to end.
        with FileLock(self._layout.ending_lock) as ending:
            ending.acquire(deadline_s, "the old broker to end", report=self._report)

    def _end(self, timeout_s: float) -> bool:
        nodes = self._nodes()
        aot = [launch.aot for node in nodes if (launch := node.running())]
        ended = end(nodes, timeout_s)
        if self._prepare_later and not all(aot):
            prepare_later()
        return ended

    def _change(self, deadline_s: float) -> FileLock:
        waiting_for = f"another process that starts or stops the broker of {self.home}"
        return FileLock(self._layout.change_lock).acquire(deadline_s, waiting_for, report=self._report)

    def _nodes(self) -> list[Node]:
        kept = self._cluster()
        return [Node(self._layout, kept, address) for address in kept.nodes] if kept else []

    def _cluster(self) -> Cluster | None:
        return cluster.load_cluster(self._layout.cluster_file)

    def _node(self, number: int) -> Node:
        for node in self._nodes():
            if node.address.node_id == number:
                return node
        known = f"its nodes are {', '.join(map(str, self.nodes))}" if self.nodes else "it was never started"
        raise UsageError(f"the broker of {self.home} has no node {number}; {known}")

    def _start(self, deadline_s: float) -> Cluster:
        if not self._layout.cluster_file.exists():
            cluster.save_cluster(self._layout.cluster_file, cluster.new_cluster(self._wanted or 1, self._port))
        refuse_other_number(self.home, self.nodes, self._wanted)
        settled = self._settle_addresses(self.nodes)
        self._starter().bring_up(self._nodes(), deadline_s)
        return settled

    def _starter(self) -> Starter:
        return Starter(lambda: ensure_jars(self._report), self._properties, self._listeners, self._report)

    def _settle_addresses(self, wanted: Sequence[int]) -> Cluster:
        """Check the addresses of the wanted nodes that do not run, and choose new ones where needed."""
        nodes = self._nodes()
        settled = nodes[0].cluster
        if nodes[0].running():
            self._refuse_other_port(settled.nodes[0].broker_port)
        peers_run = any(node.running() for node in nodes)
        for node in nodes:
            if node.address.node_id in wanted and not node.running():
                settled = cluster.with_node(settled, self._settled(node, settled, peers_run=peers_run))
        cluster.save_cluster(self._layout.cluster_file, settled)
        return settled

    def _settled(self, node: Node, known: Cluster, *, peers_run: bool) -> NodeAddress:
        others = cluster.ports_of(one for one in known.nodes if one.node_id != node.address.node_id)
        is_first = node.address.node_id == 1
        return cluster.settle_address(
            node.address,
            self._port if is_first else None,
            _PORT_WAIT_S if node.died() else 0.0,
            # With a fixed port clients find the first node, and learn the addresses of the others from it.
            may_move=self._may_move if is_first or self._port is None else lambda: True,
            report=self._report,
            others=others,
            peers_run=peers_run,
        )

    def _refuse_other_port(self, port: int) -> None:
        if self._port not in (None, port):
            raise EmbeddedBrokerError(
                f"the broker of {self.home} runs at port {port}, not {self._port}. "
                "Stop it first (driftline broker stop), or leave the port out."
            )

    def _may_move(self) -> bool:
        """Whether no client can wait at the kept address: the user did not choose it, and no other process uses it."""
        if self._keep or self._port is not None or self._layout.keep_file.exists():
            return False
        alone = self._users.try_acquire()
        return self._users.try_acquire(shared=True) and alone
