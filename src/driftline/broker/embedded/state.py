"""The files that outlive a broker: cluster id and ports (kept for ever), process id (void once its process is gone)."""

import base64
import json
import os
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from driftline.broker.embedded import ports
from driftline.errors import EmbeddedBrokerError


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """One node and the two loopback ports it listens on."""

    node_id: int
    broker_port: int
    controller_port: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is chosen once for a home: Kafka's cluster id, and every node's address."""

    cluster_id: str
    nodes: tuple[NodeAddress, ...]

    @property
    def bootstrap_servers(self) -> str:
        """Addresses for clients, ``host:port`` separated by commas."""
        return ",".join(f"{ports.HOST}:{node.broker_port}" for node in self.nodes)


def write_atomically(path: Path, text: str) -> None:
    """Replace ``path`` by ``text`` so that a reader or a crash sees the old or the new content, never a part."""
    part = path.with_name(f".{path.name}-{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def new_cluster(nodes: int = 1, broker_port: int | None = None) -> Cluster:
    """Choose a cluster id and free ports for ``nodes`` nodes; ``broker_port`` fixes the first node's."""
    taken: set[int] = set() if broker_port is None else {broker_port}
    addresses = []
    for node_id in range(1, nodes + 1):
        address = choose_ports(node_id, taken, broker_port if node_id == 1 else None)
        taken |= {address.broker_port, address.controller_port}
        addresses.append(address)
    return Cluster(_new_cluster_id(), tuple(addresses))


def choose_ports(node_id: int, taken: set[int], broker_port: int | None = None) -> NodeAddress:
    """Choose free ports for one node; ``broker_port``, if given, is taken as it is."""
    broker = ports.choose(taken) if broker_port is None else broker_port
    return NodeAddress(node_id, broker, ports.choose(taken | {broker}))


def ports_of(nodes: Iterable[NodeAddress]) -> set[int]:
    """Return every port that these nodes listen on."""
    return {port for node in nodes for port in (node.broker_port, node.controller_port)}


def with_node(cluster: Cluster, node: NodeAddress) -> Cluster:
    """Return ``cluster`` with the address of one of its nodes changed."""
    return replace(cluster, nodes=tuple(node if old.node_id == node.node_id else old for old in cluster.nodes))


def _new_cluster_id() -> str:
    # Kafka's form of a UUID. It must not begin with "-", which the format tool would read as an option.
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()).startswith("-"):
        pass
    return text


def save_cluster(path: Path, cluster: Cluster) -> None:
    """Write the cluster file."""
    nodes = [
        {"id": n.node_id, "broker_port": n.broker_port, "controller_port": n.controller_port} for n in cluster.nodes
    ]
    write_atomically(path, json.dumps({"cluster_id": cluster.cluster_id, "nodes": nodes}, indent=2) + "\n")


def load_cluster(path: Path) -> Cluster | None:
    """Read the cluster file; None if there is none.

    Raises:
        EmbeddedBrokerError: the file is there but cannot be understood.
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
            f"{path} cannot be used: {error!r}. It names the cluster id and the ports of the data beside it. Restore "
            f"it, or move {path.parent} away to begin with an empty broker."
        ) from error


@dataclass(frozen=True, slots=True)
class Launch:
    """One start of a node's JVM.

    Attributes:
        pid: its process id.
        token: random, and on its command line: a process with this id but another command line is somebody else's.
        aot: whether it uses an ahead-of-time cache.
        folder: which folder it works in, see `identity`; empty where nobody noted it.
    """

    pid: int
    token: str
    aot: bool
    folder: str = ""


def identity(folder: Path) -> str:
    """Return what a folder keeps when it is moved, and a copy of it does not have; empty if it is not there."""
    try:
        seen = folder.stat()
    except OSError:
        return ""
    return f"{seen.st_dev}:{seen.st_ino}"


def load_launch(path: Path) -> Launch | None:
    """Read a process id file; None if there is none or it makes no sense (then nothing can be said of any process)."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Launch(int(data["pid"]), str(data["token"]), bool(data["aot"]), str(data.get("folder", "")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save_launch(path: Path, launch: Launch) -> None:
    """Write a process id file."""
    write_atomically(path, json.dumps(asdict(launch)))
