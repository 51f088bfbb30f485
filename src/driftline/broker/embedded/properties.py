"""A node's ``server.properties``: a pure function of its address and its peers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from driftline.broker.embedded.cluster import HOST, NodeAddress

DATA_DIR = "data"
"""Relative to the JVM's working directory, the node's folder: Kafka would split an absolute path at its commas."""

_SOCKET_BUFFER_BYTES = 4 * 1024 * 1024
_MAX_REPLICAS = 3
_DELETE = 0x7F

_ALWAYS = {
    "process.roles": "broker,controller",
    "inter.broker.listener.name": "CLIENTS",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": DATA_DIR,
    # A misspelt topic name must be an error, not a new topic.
    "auto.create.topics.enable": "false",
    "log.message.timestamp.type": "LogAppendTime",
    "unclean.leader.election.enable": "false",
    # Message size limits stay at Kafka's defaults: what works here works on any cluster.
    # Buffers of 100 KiB, the default, double the time of a 1 MB produce.
    "socket.send.buffer.bytes": str(_SOCKET_BUFFER_BYTES),
    "socket.receive.buffer.bytes": str(_SOCKET_BUFFER_BYTES),
    # The default, 50 partitions each, makes the first use of a group or a transaction slow.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "1",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "num.network.threads": "3",
    "num.io.threads": "4",
}

_RETENTION = {
    # Each topic sets how long its records are kept; these settings say how often Kafka checks that.
    "log.initial.task.delay.ms": "5000",
    "log.retention.check.interval.ms": "5000",
    "log.segment.delete.delay.ms": "1000",
    "log.cleaner.backoff.ms": "1000",
}

_GROUPS = {
    "group.initial.rebalance.delay.ms": "0",
    # Classic protocol: the client chooses, and this is the minimum.
    "group.min.session.timeout.ms": "1000",
    # Consumer protocol: the broker chooses. It exits if a value is below its own minimum.
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "750",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "150",
    # By default Kafka collects changes of a group for a second before it assigns partitions again.
    "group.consumer.min.assignment.interval.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}

_ALONE = {
    # A killed node that comes back has to wait until its old session ends, 9 s by default. With much less than this a
    # node on a busy machine misses its own heartbeats and leads nothing for a moment.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
}

_FAILOVER = {
    # By default Kafka waits 9 s for a dead leader. If it was also the active controller, an election comes first and
    # takes a second; shorter quorum time-outs made elections loop for ever. A node whose heartbeats are late by half
    # their interval is not let back in, so a shorter interval keeps nodes of a busy machine out.
    "broker.session.timeout.ms": "1200",
    "broker.heartbeat.interval.ms": "400",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.election.backoff.max.ms": "200",
    "controller.quorum.request.timeout.ms": "1000",
}


@dataclass(frozen=True, slots=True)
class Listener:
    """One more address for clients; the extra settings under its name say how it is secured.

    Attributes:
        name: its name in Kafka's settings, in capitals.
        port: on the loopback address.
        protocol: ``PLAINTEXT``, ``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``.
    """

    name: str
    port: int
    protocol: str

    @property
    def address(self) -> str:
        """Its form in Kafka's settings."""
        return f"{self.name}://{HOST}:{self.port}"


def node_properties(
    node: NodeAddress,
    peers: Sequence[NodeAddress],
    extra: Mapping[str, str] | None = None,
    listeners: Sequence[Listener] = (),
) -> dict[str, str]:
    """Return the properties of ``node`` in a cluster of ``peers`` (itself included).

    Args:
        node: the node to describe.
        peers: every node of the cluster; each is a broker and a voter.
        extra: settings that add to or replace ours.
        listeners: further addresses; the nodes themselves use the plain one.
    """
    replicas = min(len(peers), _MAX_REPLICAS)
    in_sync = max(1, replicas - 1)
    clients = Listener("CLIENTS", node.broker_port, "PLAINTEXT")
    more = [one.address for one in listeners]
    return {
        **_ALWAYS,
        **_RETENTION,
        **_GROUPS,
        **(_FAILOVER if len(peers) > 1 else _ALONE),
        "node.id": str(node.node_id),
        "controller.quorum.voters": ",".join(f"{p.node_id}@{HOST}:{p.controller_port}" for p in peers),
        "listeners": ",".join([clients.address, f"CONTROLLER://{HOST}:{node.controller_port}", *more]),
        "advertised.listeners": ",".join([clients.address, *more]),
        "listener.security.protocol.map": ",".join(
            ["CONTROLLER:PLAINTEXT", *(f"{one.name}:{one.protocol}" for one in (clients, *listeners))]
        ),
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
        **(extra or {}),
    }


def render(properties: Mapping[str, str]) -> str:
    """Return the text of a Java properties file; everything outside ASCII is escaped."""
    return "".join(f"{_escape(name)}={_escape(value)}\n" for name, value in sorted(properties.items()))


def _escape(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("=", "\\=").replace(" ", "\\ ")
    units = escaped.encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(code) if code < _DELETE else f"\\u{code:04x}" for code in codes)
