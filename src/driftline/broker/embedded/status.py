"""The state of a home's broker, found without changing anything."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from driftline.broker.embedded.cluster import HOST, load_cluster
from driftline.broker.embedded.files import Layout
from driftline.broker.embedded.jars import KAFKA_VERSION
from driftline.broker.embedded.node import Node
from driftline.broker.embedded.probe import ask_leader

_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """State of one node.

    Attributes:
        node: its id, from 1.
        state: ``ready``, ``starting`` (its process does not answer yet), ``stopped``, or ``died`` (its process ended
            without a stop; a start brings it back).
        address: for clients, ``host:port``, kept over restarts.
        pid: process id of its JVM, None if there is none.
        controller: whether it is the active controller, which decides which node leads which partition.
        aot: whether it was started with an ahead-of-time cache.
        log: log file of its JVM.
    """

    node: int
    state: str
    address: str
    pid: int | None
    controller: bool
    aot: bool
    log: Path

    @property
    def running(self) -> bool:
        """Whether its process runs."""
        return self.pid is not None


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """State of the broker of one home.

    Attributes:
        state: the state of its nodes if all have the same; otherwise ``starting`` if all of them run, and
            ``degraded`` if not.
        bootstrap_servers: its addresses, kept over restarts; None before the first start.
        pid: process id of the first running JVM, None if there is none.
        keep: whether it runs on without users.
        aot: whether every running JVM was started with an ahead-of-time cache.
        home: ``$DRIFTLINE_HOME``.
        log: log file of the JVM of its first node.
        nodes: state of each node; empty before the first start.
        kafka: version of Apache Kafka.
    """

    state: str
    bootstrap_servers: str | None
    pid: int | None
    keep: bool
    aot: bool
    home: Path
    log: Path
    nodes: tuple[NodeStatus, ...] = ()
    kafka: str = KAFKA_VERSION

    @property
    def running(self) -> bool:
        """Whether at least one of its processes runs."""
        return self.pid is not None


def look(home: Path, layout: Layout) -> BrokerStatus:
    """Return the state of the broker of ``home``; changes nothing."""
    cluster = load_cluster(layout.cluster_file)
    if cluster is None:
        log = layout.node_dir(1) / "broker.log"
        return BrokerStatus("stopped", None, None, keep=False, aot=False, home=home, log=log)
    nodes = _look_at([Node(layout, cluster, address) for address in cluster.nodes])
    running = [node for node in nodes if node.running]
    return BrokerStatus(
        state=_state_of([node.state for node in nodes], all_live=len(running) == len(nodes)),
        bootstrap_servers=cluster.bootstrap_servers,
        pid=running[0].pid if running else None,
        keep=layout.keep_file.exists(),
        aot=bool(running) and all(node.aot for node in running),
        home=home,
        log=nodes[0].log,
        nodes=nodes,
    )


def _state_of(states: Collection[str], *, all_live: bool) -> str:
    if len(set(states)) == 1:
        return next(iter(states))
    return "starting" if all_live else "degraded"


def _look_at(nodes: Sequence[Node]) -> tuple[NodeStatus, ...]:
    states = {node: node.condition() for node in nodes}
    controller = _controller([node for node in nodes if states[node] == "ready"], len(nodes))
    return tuple(_node_status(node, states[node], controller) for node in nodes)


def _controller(ready: Sequence[Node], nodes: int) -> int | None:
    """Ask the ready nodes for the active controller; a single node is its own."""
    if nodes == 1:
        return ready[0].address.node_id if ready else None
    answers = (ask_leader(HOST, node.address.broker_port, _TIMEOUT_S) for node in ready)
    return next((leader for leader in answers if leader is not None), None)


def _node_status(node: Node, condition: str, controller: int | None) -> NodeStatus:
    launch = node.running()
    return NodeStatus(
        node=node.address.node_id,
        state=condition,
        address=f"{HOST}:{node.address.broker_port}",
        pid=launch.pid if launch else None,
        controller=node.address.node_id == controller,
        aot=bool(launch and launch.aot),
        log=node.log,
    )
