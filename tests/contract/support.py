"""Small steps of contract tests; each has a generous deadline and says what it waited for."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from driftline.broker.port import (
    Admin,
    Assigned,
    Broker,
    EndReached,
    GroupReader,
    Payload,
    Producer,
    Reader,
    Record,
    Revoked,
    TopicSpec,
)
from driftline.errors import BrokerError

DEADLINE_S = 20.0

E = TypeVar("E", bound="Record | EndReached | Assigned | Revoked")


class Polled(Protocol):
    """What both kinds of readers have in common."""

    def poll(self, timeout_s: float) -> Record | EndReached | Assigned | Revoked | None:
        """Return the next event."""
        ...


@dataclass(frozen=True)
class Lab:
    """A broker with helpers; everything made with it is closed after the test."""

    broker: Broker
    away: Callable[[], Broker]
    """A broker whose clients reach no node, with time-outs of about a second."""
    unique: Callable[[str], str]
    closers: list[Callable[[], object]]

    def topic(self, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        """Create a topic with a new name."""
        name = self.unique("topic")
        admin = self.broker.admin()
        admin.create([TopicSpec(name, partitions, config or {})])
        admin.close()
        return name

    def producer(self) -> Producer:
        """Make a producer."""
        producer = self.broker.producer()
        self.closers.append(lambda: producer.close(0.5))
        return producer

    def admin(self) -> Admin:
        """Make an admin client."""
        admin = self.broker.admin()
        self.closers.append(admin.close)
        return admin

    def reader(self) -> Reader:
        """Make a reader."""
        reader = self.broker.reader()
        self.closers.append(reader.close)
        return reader

    def keep(self, client: GroupReader) -> GroupReader:
        """Close a group reader after the test."""
        self.closers.append(client.close)
        return client


def write(producer: Producer, topic: str, partition: int, *values: Payload | None, key: bytes | None = None) -> None:
    """Write records and wait until all are acknowledged."""
    errors: list[BrokerError | None] = []
    for value in values:
        producer.send(topic, partition, value, key=key, on_delivery=errors.append)
    assert producer.flush(DEADLINE_S) == 0
    assert errors == [None] * len(values)


def until(reader: Polled, kind: type[E]) -> E:
    """Poll until an event of this kind comes; drop others."""
    return collect(reader, 1, kind)[0]


def collect(reader: Polled, n: int, kind: type[E]) -> list[E]:
    """Poll until ``n`` events of this kind came; drop others."""
    found: list[E] = []
    deadline_s = time.monotonic() + DEADLINE_S
    while len(found) < n:
        assert time.monotonic() < deadline_s, f"waited for {n} x {kind.__name__}, got {found}"
        event = reader.poll(0.1)
        if isinstance(event, kind):
            found.append(event)
    return found


def next_event(reader: Polled) -> Record | EndReached | Assigned | Revoked:
    """Poll until any event comes."""
    deadline_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s:
        event = reader.poll(0.1)
        if event is not None:
            return event
    raise AssertionError("waited for any event")


def values_of(reader: Polled, n: int) -> list[bytes | None]:
    """Return the values of the next ``n`` records."""
    return [record.value for record in collect(reader, n, Record)]


def quiet(reader: Polled, wait_s: float = 0.3) -> None:
    """Assert that no record comes for a moment."""
    deadline_s = time.monotonic() + wait_s
    while time.monotonic() < deadline_s:
        event = reader.poll(0.05)
        assert not isinstance(event, Record), f"a record came: {event}"


def settle(readers: dict[str, GroupReader], owned: dict[str, set[int]], goal: dict[str, set[int]]) -> None:
    """Poll all members in turn until each owns what ``goal`` says; updates ``owned``."""
    deadline_s = time.monotonic() + DEADLINE_S
    while owned != goal:
        assert time.monotonic() < deadline_s, f"waited for {goal}, owned are {owned}"
        for name, reader in readers.items():
            match reader.poll(0.02):
                case Assigned(partitions):
                    owned[name] |= set(partitions)
                case Revoked(partitions):
                    owned[name] -= set(partitions)
                case _:
                    pass
