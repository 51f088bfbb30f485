"""Settings of the Kafka clients, checked as a whole before any client exists."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from driftline.broker.kafka.membership import AUTO, CHOICES, Protocol, membership_properties
from driftline.broker.kafka.properties import masked, property_problems, scrubbed
from driftline.errors import ConfigError

_ADDRESS = re.compile(r"(?:[A-Za-z_]+://)?(?:\[[0-9A-Fa-f:.%]+\]|[^\s,:/\[\]]+):(\d{1,5})")
_MAX_PORT = 65_535
_MIB = 1 << 20


@dataclass(frozen=True, repr=False)
class KafkaSettings:
    """How to reach Kafka, and how long to wait for it.

    Memory of one reader: ``reader_queue_kib`` of fetched records plus one fetch of at most 16 MiB a broker. Memory of
    one producer: ``producer_queue_kib``.

    Raises:
        ConfigError: holds everything that is wrong with the settings.
    """

    bootstrap_servers: str
    """``host:port``, several separated by commas."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Passed to librdkafka as they are, for TLS, SASL and the like."""
    request_timeout_s: float = 10.0
    """Longest wait for an answer about topics or offsets."""
    delivery_timeout_s: float = 30.0
    """After how long an unacknowledged record fails, and how long ``send`` waits for room in the queue."""
    session_timeout_s: float = 6.0
    """Silence after which a group gives a member's partitions away, where the member says it (see ``Protocol``); Kafka
    itself allows no less than 6 by default."""
    max_poll_interval_s: float = 300.0
    """Longest time between two polls of a group reader before it has to leave the group."""
    idle_check_s: float = 5.0
    """How long a reader that gets nothing waits until it asks whether its topics still exist."""
    close_timeout_s: float = 5.0
    """Longest time that closing a reader takes."""
    producer_queue_kib: int = 16 * 1024
    reader_queue_kib: int = 16 * 1024
    group_protocol: str = AUTO
    """How members take part in groups: a ``Protocol``, or ``auto`` for the one that suits the brokers."""

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
        shown = {each.name: getattr(self, each.name) for each in fields(self)} | {"properties": masked(self.properties)}
        return f"KafkaSettings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def scrub(self, text: str) -> str:
        """Return ``text`` without any secret of these settings in it."""
        return scrubbed(text, self.properties)

    def common(self) -> dict[str, Any]:
        """Properties of every client."""
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": "driftline",
            # The default of 100 KiB at the broker and of the system here makes a 1 MB record take twice as long.
            "socket.send.buffer.bytes": 4 * _MIB,
            "socket.receive.buffer.bytes": 4 * _MIB,
            "socket.nagle.disable": True,
            "socket.keepalive.enable": True,
            # Long enough for a loaded machine, short enough to notice a broker that went silent.
            "socket.timeout.ms": 6000,
            # These bound the gap when a broker is restarted or loses its leadership.
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50,
            "retry.backoff.ms": 10,
            "retry.backoff.max.ms": 50,
            "topic.metadata.refresh.interval.ms": 250,
            "topic.metadata.refresh.fast.interval.ms": 20,
            "allow.auto.create.topics": False,
            # Errors reach us through error_cb; librdkafka's own lines on stderr would say the same in its words.
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
            # How long a topic that nobody has heard of may still be on its way through the cluster.
            "topic.metadata.propagation.max.ms": 5000,
        }
        return {**self.common(), **ours, **self.properties}

    def consumer(self) -> dict[str, Any]:
        """Properties of a reader of named partitions; librdkafka wants a group id, and nothing is ever stored in it."""
        ours = {
            "group.id": "driftline.reader",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            # Nobody here writes in transactions; one that a stranger left open must not hold readers back.
            "isolation.level": "read_uncommitted",
            # Data is answered at once in any case. This is how long a partition that is added, resumed or moved can
            # wait behind a fetch that finds nothing, because a broker gets one fetch at a time.
            "fetch.wait.max.ms": 200,
            "fetch.error.backoff.ms": 10,
            # The default of 1000 means pauses of a second whenever the local queue is full.
            "fetch.queue.backoff.ms": 5,
            "fetch.message.max.bytes": 4 * _MIB,
            "fetch.max.bytes": 16 * _MIB,
            "queued.max.messages.kbytes": self.reader_queue_kib,
        }
        return {**self.common(), **ours, **self.properties}

    def group(self, group: str, member: str, protocol: Protocol) -> dict[str, Any]:
        """Properties of a member of a consumer group that takes part by this protocol."""
        ours = {
            "group.id": group,
            "client.id": member,
            "max.poll.interval.ms": round(self.max_poll_interval_s * 1000),
            **membership_properties(protocol, member, self.session_timeout_s),
        }
        return {**self.consumer(), **ours}

    def _address_problems(self) -> list[str]:
        problems = []
        for address in self.bootstrap_servers.split(","):
            match = _ADDRESS.fullmatch(address.strip())
            if match is None or not 0 < int(match[1]) <= _MAX_PORT:
                problems.append(
                    f"bootstrap servers {self.bootstrap_servers!r}: {address.strip()!r} is no address; "
                    f'an example is "localhost:9092"'
                )
        return problems

    def _protocol_problems(self) -> list[str]:
        if self.group_protocol in CHOICES:
            return []
        return [f"group_protocol = {self.group_protocol!r} is not known; there are {', '.join(CHOICES)}"]

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
