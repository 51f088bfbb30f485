"""What can be known of a home's broker by looking."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from driftline.broker.embedded import state
from driftline.broker.embedded.lockfile import KAFKA_VERSION
from driftline.broker.embedded.node import Node
from driftline.broker.embedded.paths import Layout
from driftline.broker.embedded.ports import HOST
from driftline.broker.embedded.quorum import ask_leader

_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """What is known of one node.

    Attributes:
        node: its number, from 1.
        state: ``ready``, ``starting`` (a process that does not answer yet), ``stopped``, or ``died`` (it was started
            and its process is gone without a stop; a start repairs that).
        address: for clients, kept over restarts.
        pid: process id of its JVM, None if there is none.
        controller: it is the one that decides which node leads which partition.
        aot: it was started with an ahead-of-time cache.
        log: where its JVM writes.
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
        """Whether its process lives."""
        return self.pid is not None


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """What is known of the broker of one home.

    Attributes:
        state: that of its nodes if it is the same for all; otherwise ``starting`` if all of them live, and
            ``degraded`` if not.
        bootstrap_servers: its addresses, kept over restarts; None before the first start.
        pid: process id of the JVM of its first node that lives, None if there is none.
        keep: it runs on when nobody uses it.
        aot: every JVM that lives was started with an ahead-of-time cache.
        home: ``$DRIFTLINE_HOME``.
        log: where the JVM of its first node writes.
        nodes: one by one; none before the first start.
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
        """Whether a process of it lives."""
        return self.pid is not None


def look(home: Path, layout: Layout) -> BrokerStatus:
    """Look, and change nothing."""
    cluster = state.load_cluster(layout.cluster_file)
    if cluster is None:
        log = layout.node_dir(1) / "broker.log"
        return BrokerStatus("stopped", None, None, keep=False, aot=False, home=home, log=log)
    nodes = _look_at([Node(layout, cluster, address) for address in cluster.nodes])
    living = [node for node in nodes if node.running]
    return BrokerStatus(
        state=_state_of([node.state for node in nodes], all_live=len(living) == len(nodes)),
        bootstrap_servers=cluster.bootstrap_servers,
        pid=living[0].pid if living else None,
        keep=layout.keep_file.exists(),
        aot=bool(living) and all(node.aot for node in living),
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
    """Ask those that answer for the active controller; alone, a node is its own."""
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
