"""Settings of the Kafka clients, checked as a whole before any client exists."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from driftline.broker.kafka.properties import mask, property_problems, scrub_text
from driftline.errors import ConfigError

_ADDRESS = re.compile(r"(?:[A-Za-z_]+://)?(?:\[[0-9A-Fa-f:.%]+\]|[^\s,:/\[\]]+):(\d{1,5})")
_MAX_PORT = 65_535
_MIB = 1 << 20

AUTO = "auto"
"""Choose the group protocol that suits the brokers."""


class GroupProtocol(StrEnum):
    """How a member takes part in a consumer group.

    ``CONSUMER`` is Kafka's newer protocol (KIP-848): the brokers assign partitions and choose the session time-out,
    after which a silent member loses its partitions. With ``CLASSIC`` and ``STATIC`` the members do both. A static
    member has a fixed name: if it comes back within its session, it owns its partitions again without a rebalance. In
    return it keeps them that long when it leaves on purpose.
    """

    CONSUMER = "consumer"
    STATIC = "static"
    CLASSIC = "classic"


GROUP_PROTOCOLS = (AUTO, *GroupProtocol)


def suitable_protocol(broker: Mapping[str, str] | None, session_s: float) -> GroupProtocol:
    """Return the protocol with which the group gets the partitions of a dead member back soonest.

    Args:
        broker: settings of a node of the cluster; None if this client may not read them.
        session_s: session time-out of the classic protocol, in seconds.
    """
    known = broker or {}
    protocols = known.get("group.coordinator.rebalance.protocols", GroupProtocol.CLASSIC).split(",")
    session_ms = int(known.get("group.consumer.session.timeout.ms", 2**31))
    if GroupProtocol.CONSUMER not in protocols:
        return GroupProtocol.STATIC
    is_faster = session_ms <= session_s * 1000 or GroupProtocol.CLASSIC not in protocols
    return GroupProtocol.CONSUMER if is_faster else GroupProtocol.STATIC


@dataclass(frozen=True, repr=False)
class KafkaSettings:
    """How to reach Kafka, and how long to wait for it.

    Memory of one reader: ``reader_queue_kib`` of fetched records plus one fetch of at most 16 MiB a broker. Memory of
    one producer: ``producer_queue_kib``.

    Raises:
        ConfigError: lists everything that is wrong with the settings.
    """

    bootstrap_servers: str
    """``host:port``, several separated by commas."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Passed to librdkafka unchanged: TLS, SASL and the like."""
    request_timeout_s: float = 10.0
    """Longest wait for an answer about topics or offsets."""
    delivery_timeout_s: float = 30.0
    """Time after which an unacknowledged record fails, and longest wait of ``send`` for room in the queue."""
    session_timeout_s: float = 6.0
    """Silence after which a member loses its partitions, where members choose it (see `GroupProtocol`); Kafka's default
    minimum is 6."""
    max_poll_interval_s: float = 300.0
    """Longest time between two polls of a group reader; after that it leaves the group."""
    idle_check_s: float = 5.0
    """How long a reader without new records waits before it asks whether its topics still exist."""
    close_timeout_s: float = 5.0
    """Longest time that closing a reader takes."""
    producer_queue_kib: int = 16 * 1024
    reader_queue_kib: int = 16 * 1024
    group_protocol: str = AUTO
    """A `GroupProtocol`, or ``auto`` for the one that suits the brokers."""

    def __post_init__(self) -> None:
        problems = [
            *self._address_problems(),
            *self._number_problems(),
            *property_problems(self.properties),
            *self._protocol_problems(),
        ]
        if problems:
            raise ConfigError(problems)

    def __repr__(self) -> str:
        shown = {each.name: getattr(self, each.name) for each in fields(self)} | {"properties": mask(self.properties)}
        return f"KafkaSettings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def scrub(self, text: str) -> str:
        """Return ``text`` without any secret of these settings in it."""
        return scrub_text(text, self.properties)

    def common(self) -> dict[str, Any]:
        """Properties of every client."""
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": "driftline",
            # The default, 100 KiB at the broker and the system's here, makes a 1 MB record take twice as long.
            "socket.send.buffer.bytes": 4 * _MIB,
            "socket.receive.buffer.bytes": 4 * _MIB,
            "socket.nagle.disable": True,
            "socket.keepalive.enable": True,
            # Long enough for a loaded machine, short enough to detect a silent broker.
            "socket.timeout.ms": 6000,
            # These bound the pause when a broker restarts or loses leadership.
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50,
            "retry.backoff.ms": 10,
            "retry.backoff.max.ms": 50,
            "topic.metadata.refresh.interval.ms": 250,
            "topic.metadata.refresh.fast.interval.ms": 20,
            "allow.auto.create.topics": False,
            # Errors arrive through error_cb; librdkafka's own lines on stderr would repeat them.
            "log_level": 2,
            "log.connection.close": False,
            **self.properties,
        }

    def producer(self) -> dict[str, Any]:
        """Properties of a producer."""
        ours = {
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 0,
            "message.timeout.ms": round(self.delivery_timeout_s * 1000),
            "queue.buffering.max.kbytes": self.producer_queue_kib,
            # How long an unknown topic may still be on its way through the cluster.
            "topic.metadata.propagation.max.ms": 5000,
        }
        return {**self.common(), **ours, **self.properties}

    def consumer(self) -> dict[str, Any]:
        """Properties of a reader of named partitions; librdkafka requires a group id, which stores nothing."""
        ours = {
            "group.id": "driftline.reader",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            # We use no transactions; one that another program left open must not block readers.
            "isolation.level": "read_uncommitted",
            # New data is returned at once in any case. A broker handles one fetch at a time, so a partition that is
            # added, resumed or moved waits this long behind a fetch that finds nothing.
            "fetch.wait.max.ms": 200,
            "fetch.error.backoff.ms": 10,
            # The default of 1000 means pauses of a second whenever the local queue is full.
            "fetch.queue.backoff.ms": 5,
            "fetch.message.max.bytes": 4 * _MIB,
            "fetch.max.bytes": 16 * _MIB,
            "queued.max.messages.kbytes": self.reader_queue_kib,
        }
        return {**self.common(), **ours, **self.properties}

    def group(self, group: str, member: str, protocol: GroupProtocol) -> dict[str, Any]:
        """Properties of a member of a consumer group with this protocol."""
        ours = {
            "group.id": group,
            "client.id": member,
            "max.poll.interval.ms": round(self.max_poll_interval_s * 1000),
            **_membership_properties(protocol, member, self.session_timeout_s),
        }
        return {**self.consumer(), **ours}

    def _address_problems(self) -> list[str]:
        problems = []
        for address in self.bootstrap_servers.split(","):
            match = _ADDRESS.fullmatch(address.strip())
            if match is None or not 0 < int(match[1]) <= _MAX_PORT:
                problems.append(
                    f"bootstrap servers {self.bootstrap_servers!r}: {address.strip()!r} is not an address; "
                    f'an example is "localhost:9092"'
                )
        return problems

    def _protocol_problems(self) -> list[str]:
        if self.group_protocol in GROUP_PROTOCOLS:
            return []
        return [f"group_protocol = {self.group_protocol!r} does not exist: choose {', '.join(GROUP_PROTOCOLS)}"]

    def _number_problems(self) -> list[str]:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        numbers = {name: value for name, value in values.items() if isinstance(value, int | float)}
        problems = [f"{name} = {value}: must be positive" for name, value in numbers.items() if value <= 0]
        if self.session_timeout_s > self.max_poll_interval_s:
            problems.append(
                f"session_timeout_s = {self.session_timeout_s:g} is above max_poll_interval_s = "
                f"{self.max_poll_interval_s:g}: raise the latter or lower the former"
            )
        return problems


def _membership_properties(protocol: GroupProtocol, member: str, session_s: float) -> dict[str, str | int]:
    if protocol is GroupProtocol.CONSUMER:
        return {"group.protocol": "consumer"}
    session_ms = round(session_s * 1000)
    return {
        "group.protocol": "classic",
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": session_ms,
        # A member learns of a rebalance from its next heartbeat, and a cooperative rebalance takes two rounds.
        "heartbeat.interval.ms": min(300, session_ms // 3),
        **({"group.instance.id": member} if protocol is GroupProtocol.STATIC else {}),
    }
