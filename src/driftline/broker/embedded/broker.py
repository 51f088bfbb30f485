"""The embedded broker as its users see it: start, use, stop."""

import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from driftline.broker.embedded import process, state
from driftline.broker.embedded.address import settle
from driftline.broker.embedded.ending import end
from driftline.broker.embedded.filelock import FileLock
from driftline.broker.embedded.jars import ensure_jars
from driftline.broker.embedded.node import Node
from driftline.broker.embedded.number import check_number, refuse_other_number
from driftline.broker.embedded.paths import Layout, make_dir
from driftline.broker.embedded.prepare import prepare_later
from driftline.broker.embedded.properties import Listener
from driftline.broker.embedded.report import Report, quiet
from driftline.broker.embedded.starting import Starter
from driftline.broker.embedded.status import BrokerStatus, look
from driftline.errors import EmbeddedBrokerError, UsageError

START_TIMEOUT_S = 120.0
"""A start takes seconds, but a machine that is busy with other things can make it a minute."""

_STOP_TIMEOUT_S = 30.0
_PORT_WAIT_S = 5.0


class EmbeddedBroker:
    """One Kafka for each home, of one node or several, shared by all processes that use that home.

    By default the broker lives as long as somebody uses it: whoever called ``start`` and neither called ``release``
    nor died. With ``keep`` it runs on until ``stop``. As a context manager it starts and releases.

    Args:
        home: ``$DRIFTLINE_HOME``; the broker's state lies in its subfolder ``broker``.
        keep: let it run on when nobody uses it.
        port: the clients' port of its first node; chosen once and kept by default.
        nodes: how many nodes a new broker has: an odd number. An existing one has as many as it was made with, which
            is what None takes; None makes one of one node.
        prepare: after a stop, have the ahead-of-time cache made in the background if there is none.
        report: told what is waited for: downloads, other processes.
        listeners: more addresses for clients, for example one with TLS.
        properties: settings of Kafka that are added, or replace one of ours.

    Raises:
        UsageError: no broker can have that number of nodes.
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
        """Start the broker, or find it running; starts those of its nodes that do not run.

        Args:
            timeout_s: bound of the start itself; a first download is not counted.

        Returns:
            Its bootstrap servers, once every node answers metadata requests and knows the others.

        Raises:
            EmbeddedBrokerError: it did not start; says why and what to do.
            UsageError: the broker of this home has another number of nodes than was asked for.
        """
        refuse_other_number(self.home, self.nodes, self._wanted)
        make_dir(self._layout.root, "the broker's state")
        if not self.nodes or not all(node.running() for node in self._nodes()):
            ensure_jars(self._report)
        deadline_s = time.monotonic() + timeout_s
        with self._change(deadline_s):
            self._become_user(deadline_s)
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

    @property
    def is_used(self) -> bool:
        """Whether this object uses the broker: from `start` to `release` or `stop`, unless it keeps it."""
        return self._users.held

    def release(self, timeout_s: float = _STOP_TIMEOUT_S) -> None:
        """Use the broker no more: stops it if it is not kept and nobody else uses it. Idempotent."""
        if not self._users.held:
            return
        if not self._layout.root.exists():
            # Somebody removed the home; the broker's watchdogs see that too and end it.
            self._users.release()
            return
        with self._change(time.monotonic() + timeout_s):
            if self._users.try_acquire() and not self._layout.keep_file.exists():
                self._end(timeout_s)
            self._users.release()

    def kill(self, node: int | None = None) -> bool:
        """End a node's process as a crash would, or those of all; False if none was running.

        ``start`` and ``revive`` bring it back on the same data and address.

        Raises:
            UsageError: there is no such node.
        """
        killed = [one.kill() for one in (self._nodes() if node is None else [self._node(node)])]
        return any(killed)

    def signal(self, node: int, number: signal.Signals) -> state.Launch | None:
        """Signal a node's process, and no other; return which one that was, None if it is not running.

        Raises:
            UsageError: there is no such node.
        """
        launch = self.running(node)
        return launch if launch is not None and process.send(launch, number) else None

    def running(self, node: int) -> state.Launch | None:
        """Return the launch of a node whose process lives, None if it does not.

        Raises:
            UsageError: there is no such node.
        """
        return self._node(node).running()

    def revive(self, node: int, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start a node that does not run, and none of the others.

        Returns once the node and those that run know each other. While fewer than a majority of the nodes run, there is
        nothing to take part in: then it returns as soon as the node's process is there.

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
        """Look, and change nothing."""
        return look(self.home, self._layout)

    @property
    def nodes(self) -> tuple[int, ...]:
        """Numbers of its nodes; none before the first start."""
        return tuple(node.address.node_id for node in self._nodes())

    @property
    def bootstrap_servers(self) -> str:
        """Addresses for clients.

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

    def _become_user(self, deadline_s: float) -> None:
        self._users.acquire(deadline_s, "the old broker to end", shared=True, report=self._report)
        # Who waits here is a user already, so no further node decides to end.
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
        cluster = state.load_cluster(self._layout.cluster_file)
        return [Node(self._layout, cluster, address) for address in cluster.nodes] if cluster else []

    def _node(self, number: int) -> Node:
        for node in self._nodes():
            if node.address.node_id == number:
                return node
        known = ", ".join(map(str, self.nodes)) or "none: it was never started"
        raise UsageError(f"the broker of {self.home} has no node {number}; its nodes are {known}")

    def _start(self, deadline_s: float) -> state.Cluster:
        if not self._layout.cluster_file.exists():
            state.save_cluster(self._layout.cluster_file, state.new_cluster(self._wanted or 1, self._port))
        refuse_other_number(self.home, self.nodes, self._wanted)
        cluster = self._settle_addresses(self.nodes)
        self._starter().bring_up(self._nodes(), deadline_s)
        return cluster

    def _starter(self) -> Starter:
        return Starter(lambda: ensure_jars(self._report), self._properties, self._listeners, self._report)

    def _settle_addresses(self, wanted: Sequence[int]) -> state.Cluster:
        """See to it that those of the nodes that do not run can be started at their addresses, or at new ones."""
        nodes = self._nodes()
        cluster = nodes[0].cluster
        if nodes[0].running():
            self._refuse_other_port(cluster.nodes[0].broker_port)
        peers_run = any(node.running() for node in nodes)
        for node in nodes:
            if node.address.node_id in wanted and not node.running():
                cluster = state.with_node(cluster, self._settled(node, cluster, peers_run=peers_run))
        state.save_cluster(self._layout.cluster_file, cluster)
        return cluster

    def _settled(self, node: Node, cluster: state.Cluster, *, peers_run: bool) -> state.NodeAddress:
        others = state.ports_of(one for one in cluster.nodes if one.node_id != node.address.node_id)
        is_first = node.address.node_id == 1
        return settle(
            node.address,
            self._port if is_first else None,
            _PORT_WAIT_S if node.died() else 0.0,
            # With a port for the first node clients find it, and hear from it where the others are.
            may_move=self._may_move if is_first or self._port is None else _yes,
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
        """Whether nobody can be waiting at the kept address: it was not asked for, and no other process uses it."""
        if self._keep or self._port is not None or self._layout.keep_file.exists():
            return False
        alone = self._users.try_acquire()
        return self._users.try_acquire(shared=True) and alone


def _yes() -> bool:
    return True
