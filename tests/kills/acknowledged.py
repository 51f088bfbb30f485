"""A broker that notes which contributions were acknowledged, in a file that outlives the process."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from driftline.broker.port import Admin, Broker, GroupReader, OnAppended, OnDelivery, Payload, Producer, Reader, Start
from driftline.errors import BrokerError, Undecodable
from driftline.schemas.codec import decode
from driftline.schemas.records import Contribution, GroupId

Clock = tuple[GroupId, int]
Note = Callable[[str, Contribution], None]


@dataclass(frozen=True, slots=True)
class Noted:
    """What workers' producers did.

    Attributes:
        sent: (group, clock) → root of the contribution, before it was handed to Kafka.
        acknowledged: those of which Kafka said that they are in the log.
    """

    sent: dict[Clock, str]
    acknowledged: frozenset[Clock]


class Acknowledged:
    """Implements ``Broker`` on top of another one.

    Args:
        broker: does the work.
        path: of the file; every line is written by one call, so that SIGKILL leaves whole lines.
    """

    def __init__(self, broker: Broker, path: Path) -> None:
        self._broker = broker
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def producer(self) -> Producer:
        """Return a producer that notes."""
        return _Producer(self._broker.producer(), self._note)

    def _note(self, what: str, one: Contribution) -> None:
        line = {"what": what, "group": [one.group.offset, one.group.index], "clock": one.clock, "root": one.root.hex()}
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def reader(self) -> Reader:
        """See ``Broker.reader``."""
        return self._broker.reader()

    def group_reader(self, topic: str, group: str, member: str, start: Start) -> GroupReader:
        """See ``Broker.group_reader``."""
        return self._broker.group_reader(topic, group, member, start)

    def admin(self) -> Admin:
        """See ``Broker.admin``."""
        return self._broker.admin()

    def check(self, timeout_s: float) -> None:
        """See ``Broker.check``."""
        self._broker.check(timeout_s)


class _Producer:
    """Implements ``Producer`` on top of another one."""

    def __init__(self, producer: Producer, note: Note) -> None:
        self._producer, self._note = producer, note
        self.poll, self.flush, self.close = producer.poll, producer.flush, producer.close

    def send(
        self,
        topic: str,
        partition: int,
        value: Payload | None,
        *,
        key: bytes | None = None,
        on_delivery: OnDelivery | None = None,
        on_appended: OnAppended | None = None,
    ) -> None:
        """See ``Producer.send``."""
        one = _contribution(value)
        if one is None:
            self._producer.send(topic, partition, value, key=key, on_delivery=on_delivery, on_appended=on_appended)
            return

        def delivered(error: BrokerError | None) -> None:
            if error is None:
                self._note("acknowledged", one)
            if on_delivery is not None:
                on_delivery(error)

        self._note("sent", one)
        self._producer.send(topic, partition, value, key=key, on_delivery=delivered, on_appended=on_appended)


def _contribution(value: Payload | None) -> Contribution | None:
    if not isinstance(value, bytes):
        return None
    try:
        record = decode(value)
    except Undecodable:
        return None
    return record if isinstance(record, Contribution) else None


def read_notes(paths: list[Path]) -> Noted:
    """Read what all incarnations of all workers noted."""
    lines = [json.loads(line) for path in paths if path.exists() for line in path.read_text().splitlines()]
    clocks = [((GroupId(*line["group"]), line["clock"]), line) for line in lines]
    return Noted(
        sent={clock: line["root"] for clock, line in clocks if line["what"] == "sent"},
        acknowledged=frozenset(clock for clock, line in clocks if line["what"] == "acknowledged"),
    )
