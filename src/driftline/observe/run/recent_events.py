"""What the newest events of a run say about its members. For people only: it decides nothing."""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from driftline.broker.port import Broker, Record, Start, Tail
from driftline.broker.reading import POLL_S, reading, until_end
from driftline.broker.topics import Stream, topic_name
from driftline.errors import Undecodable
from driftline.ledger.event_check import event_problem
from driftline.ledger.run_state import RunState
from driftline.schemas.codec import decode
from driftline.schemas.records import Event, Heartbeat, Leave, ServerState, Tick, UndecodableReport

RECENT_EVENTS = 4_000
"""How many events are read back: a few seconds of a fast run, all of a short one."""


@dataclass(frozen=True, slots=True)
class Member:
    """The newest event of one incarnation of a member.

    Attributes:
        role: ``worker``, ``server`` or ``evaluator``.
        seen_ms: append time of that event at the broker, milliseconds since the epoch.
        partitions: of a server: those that it owns.
        left: whether it has left the run.
    """

    role: str
    name: str
    incarnation: bytes
    seen_ms: int
    version: int
    clock: int = 0
    waiting_share: float = 0.0
    partitions: tuple[int, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    failure: str = ""
    left: bool = False


class RecentEvents:
    """Fold of the end of the events stream.

    Args:
        run: UUID of the run; events of another run under the same name do not count.
    """

    def __init__(self, run: bytes | None = None) -> None:
        self.run = run
        self.members: dict[tuple[str, str, bytes], Member] = {}
        self.newest_ms = 0
        self.records = 0
        self.undecodable = 0
        self.reported_undecodable = 0

    def read(self, value: bytes | None, timestamp_ms: int) -> None:
        """Fold one record of the stream."""
        self.records += 1
        self.newest_ms = max(self.newest_ms, timestamp_ms)
        try:
            event = decode(value)
        except Undecodable:
            self.undecodable += 1
            return
        if isinstance(event, Event) and event_problem(event, None):
            return  # the coordinator drops it, too; an illegal name may not be printed
        match event:
            case Tick():
                pass
            case Heartbeat(run=self.run):
                self._heartbeat(event, timestamp_ms)
            case ServerState(run=self.run):
                self._server(event, timestamp_ms)
            case Leave(run=self.run):
                self._leave(event, timestamp_ms)
            case UndecodableReport(run=self.run):
                self.reported_undecodable += 1

    def _heartbeat(self, event: Heartbeat, timestamp_ms: int) -> None:
        self.members[event.role, event.member, event.incarnation] = Member(
            role=event.role,
            name=event.member,
            incarnation=event.incarnation,
            seen_ms=timestamp_ms,
            version=event.version,
            clock=event.clock,
            waiting_share=event.waiting_share if 0.0 <= event.waiting_share <= 1.0 else 0.0,
            counters=event.counters,
        )

    def _server(self, event: ServerState, timestamp_ms: int) -> None:
        self.members["server", event.server, event.incarnation] = Member(
            role="server",
            name=event.server,
            incarnation=event.incarnation,
            seen_ms=timestamp_ms,
            version=event.version,
            partitions=tuple(sorted(one.partition for one in event.partitions)),
            counters=event.counters,
            failure=event.failure,
        )

    def _leave(self, event: Leave, timestamp_ms: int) -> None:
        key = ("worker", event.worker, event.incarnation)
        known = self.members.get(key)
        self.members[key] = Member(
            role="worker",
            name=event.worker,
            incarnation=event.incarnation,
            seen_ms=timestamp_ms,
            version=-1 if known is None else known.version,
            clock=0 if known is None else known.clock,
            left=True,
        )

    # -- questions ---------------------------------------------------------------------------------------------------

    def of_role(self, role: str) -> list[Member]:
        """Return the newest incarnation of every member of a role, by name."""
        newest: dict[str, Member] = {}
        for member in sorted(self.members.values(), key=lambda one: one.seen_ms):
            if member.role == role:
                newest[member.name] = member
        return [newest[name] for name in sorted(newest)]

    def counters(self) -> Counter[str]:
        """Return the sums of the counters of all incarnations."""
        total: Counter[str] = Counter()
        for member in self.members.values():
            total.update(member.counters)
        return total

    def waiting_share(self, since_ms: int) -> float | None:
        """Return the mean share of time that workers with an event since then spend waiting; None if there are none."""
        shares = [one.waiting_share for one in self.of_role("worker") if one.seen_ms >= since_ms and not one.left]
        return sum(shares) / len(shares) if shares else None


def read_recent_events(broker: Broker, run: str, state: RunState) -> RecentEvents:
    """Fold the last events of a run whose ledger has been read."""
    events = RecentEvents(state.start.run if state.has_begun else None)
    for record in until_end(broker, topic_name(run, Stream.EVENTS), 0, Tail(RECENT_EVENTS)):
        events.read(record.value, record.timestamp_ms)
    return events


def listen(broker: Broker, run: str, run_uuid: bytes, seconds: float) -> RecentEvents:
    """Fold the events that arrive in a run within the next ``seconds``."""
    events = RecentEvents(run_uuid)
    with reading(broker) as reader:
        reader.read(topic_name(run, Stream.EVENTS), 0, Start.END)
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0:
            record = reader.poll(min(left_s, POLL_S))
            if isinstance(record, Record):
                events.read(record.value, record.timestamp_ms)
    return events
