"""The nodes of one broker: how many, at which ports, and the file that keeps both for the life of the data.

Ports are chosen once, below the ranges that Linux (32768 and up) and macOS (49152 and up) use for outgoing connections.
A client that keeps reconnecting to a stopped broker could otherwise be given the broker's own port and connect to
itself.
"""

import base64
import json
import random
import socket
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from driftline.broker.embedded.files import Report, quiet, write_atomically
from driftline.errors import EmbeddedBrokerError, UsageError

HOST = "127.0.0.1"
FIRST_PORT, LAST_PORT = 20_000, 31_999
MAX_NODES = 7
_TRIES = 200
_RETRY_S = 0.05


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """One node and the two loopback ports it listens on."""

    node_id: int
    broker_port: int
    controller_port: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is chosen once for a home: Kafka's cluster id, and the address of every node."""

    cluster_id: str
    nodes: tuple[NodeAddress, ...]

    @property
    def bootstrap_servers(self) -> str:
        """Addresses for clients: ``host:port``, separated by commas."""
        return ",".join(f"{HOST}:{node.broker_port}" for node in self.nodes)


def check_number(nodes: int) -> int:
    """Return ``nodes`` if a broker can have that many.

    Raises:
        UsageError: it cannot; names the number and the possible ones.
    """
    if nodes % 2 == 1 and 1 <= nodes <= MAX_NODES:
        return nodes
    odd = ", ".join(str(number) for number in range(1, MAX_NODES, 2))
    why = ": an even number survives no more failures than one node fewer" if nodes > 0 and nodes % 2 == 0 else ""
    raise UsageError(f"a broker of {nodes} nodes cannot be made{why}; choose {odd} or {MAX_NODES}")


def refuse_other_number(home: Path, existing: Sequence[int], wanted: int | None) -> None:
    """Return if the broker of ``home`` has the wanted number of nodes, or does not exist yet.

    Raises:
        UsageError: it has another number; names both and what to do.
    """
    if wanted is None or not existing or len(existing) == wanted:
        return
    count = "1 node" if len(existing) == 1 else f"{len(existing)} nodes"
    raise UsageError(
        f"the broker of {home} was made with {count} and keeps that number, so it cannot be started with {wanted}: "
        "leave the number out, or choose another folder with --home"
    )


def new_cluster(nodes: int = 1, broker_port: int | None = None) -> Cluster:
    """Choose a cluster id and free ports for ``nodes`` nodes; ``broker_port`` fixes the first node's."""
    taken: set[int] = set() if broker_port is None else {broker_port}
    addresses = []
    for node_id in range(1, nodes + 1):
        address = choose_ports(node_id, taken, broker_port if node_id == 1 else None)
        taken |= {address.broker_port, address.controller_port}
        addresses.append(address)
    return Cluster(_new_cluster_id(), tuple(addresses))


def _new_cluster_id() -> str:
    # Kafka's form of a UUID. It must not begin with "-": the format tool would read it as an option.
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()).startswith("-"):
        pass
    return text


def ports_of(nodes: Iterable[NodeAddress]) -> set[int]:
    """Return every port that these nodes listen on."""
    return {port for node in nodes for port in (node.broker_port, node.controller_port)}


def with_node(cluster: Cluster, node: NodeAddress) -> Cluster:
    """Return ``cluster`` with the address of one of its nodes changed."""
    return replace(cluster, nodes=tuple(node if old.node_id == node.node_id else old for old in cluster.nodes))


def save_cluster(path: Path, cluster: Cluster) -> None:
    """Write the cluster file."""
    nodes = [
        {"id": n.node_id, "broker_port": n.broker_port, "controller_port": n.controller_port} for n in cluster.nodes
    ]
    write_atomically(path, json.dumps({"cluster_id": cluster.cluster_id, "nodes": nodes}, indent=2) + "\n")


def load_cluster(path: Path) -> Cluster | None:
    """Read the cluster file; None if there is none.

    Raises:
        EmbeddedBrokerError: the file exists but cannot be read.
    """
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        nodes = tuple(
            NodeAddress(int(n["id"]), int(n["broker_port"]), int(n["controller_port"])) for n in data["nodes"]
        )
        return Cluster(str(data["cluster_id"]), nodes)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EmbeddedBrokerError(
            f"{path} cannot be used: {error!r}. It holds the cluster id and the ports of the data. Restore "
            f"it, or move {path.parent} away to begin with an empty broker."
        ) from error


def is_free(port: int) -> bool:
    """Whether a server could listen on ``port`` of the loopback address now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        # As the JVM does: connections of a dead broker that are still timing out do not count.
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((HOST, port))
            server.listen(1)
        except (OSError, OverflowError):
            return False
    return True


def still_taken(wanted: Collection[int], patience_s: float) -> list[int]:
    """Return the ports of ``wanted`` that are not free after up to ``patience_s`` seconds of waiting."""
    until_s = time.monotonic() + patience_s
    while (taken := [port for port in wanted if not is_free(port)]) and time.monotonic() < until_s:
        time.sleep(_RETRY_S)
    return taken


def choose_port(taken: Collection[int] = ()) -> int:
    """Return a free port that is not in ``taken``.

    Raises:
        EmbeddedBrokerError: no free port was found.
    """
    chooser = random.SystemRandom()
    for _ in range(_TRIES):
        port = chooser.randint(FIRST_PORT, LAST_PORT)
        if port not in taken and is_free(port):
            return port
    raise EmbeddedBrokerError(
        f"no free port found: {_TRIES} ports between {FIRST_PORT} and {LAST_PORT} were tried and all are in use. "
        "Choose one with --port."
    )


def choose_ports(node_id: int, taken: set[int], broker_port: int | None = None) -> NodeAddress:
    """Choose free ports for one node; a given ``broker_port`` is taken as it is."""
    broker = choose_port(taken) if broker_port is None else broker_port
    return NodeAddress(node_id, broker, choose_port(taken | {broker}))


def settle_address(
    kept: NodeAddress,
    wanted: int | None,
    patience_s: float,
    *,
    may_move: Callable[[], bool],
    report: Report = quiet,
    others: Collection[int] = (),
    peers_run: bool = False,
) -> NodeAddress:
    """Return the address at which a stopped node can be started now.

    Args:
        kept: its address so far.
        wanted: the port for clients that the user asked for, if any.
        patience_s: how long to wait for ports in use: a process that just died may still hold them.
        may_move: called only when needed: whether clients may be given another port.
        report: receives a line when a node moves.
        others: ports of the broker's other nodes, which must not be chosen.
        peers_run: other nodes run and look for this one at its old address. If none runs, the controller's port may
            change: all nodes learn it when they start.

    Raises:
        EmbeddedBrokerError: a port that must not change is in use.
    """
    port = kept.broker_port if wanted is None else wanted
    if port in others:
        raise EmbeddedBrokerError(f"port {port} belongs to another node of this broker. Choose another with --port.")
    taken = still_taken((port, kept.controller_port), patience_s)
    if taken and peers_run:
        raise EmbeddedBrokerError(
            f"port {taken[0]} of node {kept.node_id} is in use by another process, and the running nodes look for it "
            "there. End that process, or stop the whole broker (driftline broker stop) and start it again."
        )
    if port in taken:
        if not may_move():
            raise EmbeddedBrokerError(
                f"port {port} of this broker is in use by another process, and clients may be waiting for the broker "
                "there. End that process, or choose another port (driftline broker start --port PORT) and give clients "
                "the new address."
            )
        moved = choose_ports(kept.node_id, {port, *others})
        report(f"port {port} is in use by another process; the broker moves to port {moved.broker_port}")
        return moved
    if kept.controller_port in taken or port == kept.controller_port:
        return choose_ports(kept.node_id, {port, *others}, broker_port=port)
    return NodeAddress(kept.node_id, port, kept.controller_port)
