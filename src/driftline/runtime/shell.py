"""The thin shell around a state machine: carries records from Kafka in and effects to Kafka out.

One thread runs `step`; consumers sit on threads of their own behind one bounded inbox. The core is touched only under
``changed``, a condition that is notified after each step in which anything but time has passed, so that another thread
may look at the core and hand in effects of its own (a worker's training thread does).
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from driftline.broker.port import Assigned, Broker, EndReached, PositionLost, Record, Revoked, Start
from driftline.broker.topics import Stream, parse_topic, topic_name
from driftline.errors import BrokerError, TopicMissing
from driftline.ledger.known_ends import WAY_OUT
from driftline.runtime.errands import Errands
from driftline.runtime.inflow import Failed, Inflow, NotStarted, Pumped, Started, Stopped
from driftline.runtime.pump import GroupPump, ReaderPump
from driftline.runtime.traffic import READ, WRITTEN, Traffic, Unacknowledged
from driftline.schemas.effects import (
    AskEnds,
    CaughtUp,
    DeltasLost,
    Effect,
    EndsKnown,
    Finish,
    Input,
    PartitionsAssigned,
    PartitionsRevoked,
    Read,
    Received,
    ResumeDeltas,
    Send,
    SendFailed,
    Sent,
    StopReading,
    Timer,
    Trim,
)
from driftline.telemetry.catalogue import TRIMS
from driftline.telemetry.metrics import Sample

log = logging.getLogger(__name__)

TIMER_S = 0.01
"""Seconds between two `Timer` inputs while nothing else happens."""

BATCH = 256
"""Records that are handed over in one step at most, so that timers and other threads get their turn."""

CLOSE_S = 5.0
"""Seconds that closing may take, a client."""


class Core(Protocol):
    """A state machine that a shell can drive."""

    def begin(self) -> list[Effect]:
        """Return the first effects."""
        ...

    def on(self, event: Input) -> Iterable[Effect]:
        """Take one input and return what it leads to, all of which must be taken before anything else."""
        ...


@dataclass(frozen=True, slots=True)
class GroupStream:
    """A stream that a consumer group hands out: ``<run>.<group>``, read from ``start`` at each assignment.

    Of a ``held`` one nothing comes before the core asks for it.
    """

    stream: Stream
    group: str
    start: Start
    held: bool = False


class Shell:
    """Drives one core on one run.

    Args:
        broker: where the run's topics are.
        run: the run's name.
        core: what decides.
        member: name of this process in the consumer groups.
        groups: streams that consumer groups hand out.
    """

    def __init__(self, broker: Broker, run: str, core: Core, member: str, groups: Sequence[GroupStream] = ()) -> None:
        self._run = run
        self._core = core
        self.changed = threading.Condition(threading.RLock())
        self.finished: Finish | None = None
        self.counters: Counter[str] = Counter()
        self.traffic = Traffic()
        self._outcomes: deque[SendFailed | Sent] = deque()
        self._settled: deque[tuple[str, bool]] = deque()
        self._unacknowledged = Unacknowledged()
        self._refused: BrokerError | None = None
        self._restarts: Counter[tuple[str, int]] = Counter()
        self._producer = broker.producer()
        self._errands = Errands(broker)
        self._inflow = Inflow()
        self._reader = ReaderPump("reader", broker.reader(), self._inflow)
        self._groups = {
            one.stream: GroupPump(
                one.stream,
                broker.group_reader(topic_name(run, one.stream), f"{run}.{one.group}", member, one.start),
                self._inflow,
                held=one.held,
            )
            for one in groups
        }
        for pump in (self._reader, *self._groups.values()):
            pump.start()
        self._next_timer_s = 0.0
        self._has_news = False
        with self.changed:
            self._perform(core.begin())

    # -- running -----------------------------------------------------------------------------------------------------

    def run(self, stop: threading.Event) -> Finish:
        """Step until the core finishes or ``stop`` is set."""
        while self.finished is None and not stop.is_set():
            self.step(TIMER_S)
        return self.finished or Finish("stopped")

    def step(self, timeout_s: float) -> None:
        """Hand everything that has arrived to the core; wait ``timeout_s`` at most for something to arrive.

        Raises:
            BrokerError: a client is broken for good.
        """
        arrived = list(self._arrived(timeout_s))
        self._producer.poll()
        if self._refused is not None:
            raise self._explained(self._refused)
        with self.changed:
            for item in arrived:
                self._take(item)
            while self._outcomes:
                self._feed(self._outcomes.popleft())
            while self._errands.answers:
                question, ends = self._errands.answers.popleft()
                self._feed(EndsKnown(question.stream, ends, question.asker))
            now_s = time.monotonic()
            self._watch_writing(now_s)
            if now_s >= self._next_timer_s:
                self._next_timer_s = now_s + TIMER_S
                self._feed(Timer(now_s))
            if self._has_news:
                self._has_news = False
                self.changed.notify_all()

    def perform(self, effects: Iterable[Effect]) -> None:
        """Carry out effects that another thread got from the core, under ``changed``."""
        with self.changed:
            self._perform(effects)

    def _feed(self, event: Input) -> None:
        if self.finished is not None:
            return
        began_s = time.perf_counter()
        self._has_news |= not isinstance(event, Timer)
        self._perform(self._core.on(event))
        self.traffic.handled(event, time.perf_counter() - began_s)

    def samples(self) -> list[Sample]:
        """Return the metrics of what passes through here; under ``changed``."""
        trims = [Sample(TRIMS, count, {"outcome": outcome}) for outcome, count in self._errands.trims.items()]
        return [*self.traffic.samples(len(self._inflow)), *trims]

    # -- inputs ------------------------------------------------------------------------------------------------------

    def _arrived(self, timeout_s: float) -> Iterator[Pumped]:
        for _ in range(BATCH):
            item = self._inflow.get(timeout_s)
            if item is None:
                return
            yield item
            timeout_s = 0.0

    def _take(self, item: Pumped) -> None:
        match item.event:
            case Started(topic, partition) | Stopped(topic, partition):
                self._restarts[topic, partition] -= 1
            case NotStarted(topic, partition, error):
                self._restarts[topic, partition] -= 1
                self._not_started(topic, partition, error)
            case Failed(PositionLost() as lost):
                self._position_lost(lost)
            case Record() | EndReached() as early if self._restarts[early.topic, early.partition] > 0:
                self.counters["records_of_earlier_readings"] += 1
            case _:
                event = self._input(item)
                if event is not None:
                    self._feed(event)

    def _input(self, item: Pumped) -> Input | None:
        match item.event:
            case Record() as record:
                stream = _stream(record.topic)
                self.traffic.count(stream, READ, record.value)
                return Received(stream, record.partition, record.offset, record.key, record.value, record.timestamp_ms)
            case EndReached() as end:
                return CaughtUp(_stream(end.topic), end.partition, end.offset)
            case Assigned(partitions):
                return PartitionsAssigned(Stream(item.pump), partitions)
            case Revoked(partitions):
                return PartitionsRevoked(Stream(item.pump), partitions)
            case Failed(error):
                raise self._explained(error)
        return None

    def _not_started(self, topic: str, partition: int, error: Exception) -> None:
        """Report the end of snapshots that cannot be there: their reader knows what to do.

        A proposal may name partitions that its topics do not have; it is not chosen then, and others are.
        """
        if not isinstance(error, TopicMissing) or _stream(topic) is not Stream.SNAPSHOTS:
            raise self._explained(error)
        self.counters["topics_missing"] += 1
        log.warning("%s", error)
        if self._restarts[topic, partition] == 0:
            self._feed(CaughtUp(Stream.SNAPSHOTS, partition, 0))

    def _position_lost(self, lost: PositionLost) -> None:
        """Go on behind what was deleted before it was read, where a run can do without it."""
        stream, bounds = _stream(lost.topic), lost.bounds
        if bounds is None or lost.position > bounds.end:
            raise self._explained(lost)
        if stream is Stream.DELTAS:
            self._feed(DeltasLost(lost.partition, lost.position, bounds.begin))
        elif stream is Stream.PARAMETERS:  # newer versions are whole in what is kept
            log.warning("%s; newer parameters are read instead", lost)
            self._direct(Read(stream, lost.partition, Start.BEGINNING))
        elif stream is Stream.EVENTS:  # members of a new term repeat what still counts
            log.warning("%s; the coordinator steps down; members repeat them in the next term", lost)
            self._feed(PartitionsRevoked(stream, (lost.partition,)))
            self._groups[stream].resume((lost.partition,), (bounds.begin,))
            self._feed(PartitionsAssigned(stream, (lost.partition,)))
        else:
            raise self._explained(lost)

    def _explained(self, error: Exception) -> Exception:
        """Say what an error means for the run, and what can be done."""
        if isinstance(error, TopicMissing):
            return TopicMissing(f"{error}; run {self._run!r} cannot go on without it: was it deleted?")
        if isinstance(error, PositionLost):
            return BrokerError(f"{error}. Run {self._run!r} cannot go on without it: {WAY_OUT}")
        return error

    # -- effects -----------------------------------------------------------------------------------------------------

    def _perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            self._has_news = True
            match effect:
                case Send():
                    self._send(effect)
                case Read() | StopReading():
                    self._direct(effect)
                case ResumeDeltas():
                    self._groups[Stream.DELTAS].resume(effect.partitions, effect.begin)
                case AskEnds(stream):
                    self._errands.ask_ends(effect, topic_name(self._run, stream))
                case Trim(stream, partition, before):
                    self._errands.trim(topic_name(self._run, stream), partition, before)
                case Finish():
                    self.finished = effect

    def _direct(self, effect: Read | StopReading) -> None:
        """Start or stop a reading; until the pump answers, what still comes is of the reading before."""
        topic = topic_name(self._run, effect.stream)
        self._restarts[topic, effect.partition] += 1
        if isinstance(effect, Read):
            self._reader.read(topic, effect.partition, effect.position)
        else:
            self._reader.stop(topic, effect.partition)

    def _send(self, send: Send) -> None:
        topic = topic_name(self._run, send.stream)

        def delivered(error: BrokerError | None) -> None:
            self._settled.append((topic, error is None))
            if error is not None:
                self._fail(send, error)

        def appended(offset: int) -> None:
            self._outcomes.append(Sent.of(send, offset))

        self._unacknowledged.sent(topic, time.monotonic())
        try:
            self._producer.send(
                topic,
                send.partition,
                send.value,
                key=send.key,
                on_delivery=delivered,
                on_appended=appended if send.tell else None,
            )
        except BrokerError as error:
            if not error.retriable:
                raise self._explained(error) from error
            delivered(error)
        self.traffic.count(send.stream, WRITTEN, send.value)

    def _watch_writing(self, now_s: float) -> None:
        """Say when Kafka takes nothing for long, and why, and when it does again."""
        writing = self._unacknowledged
        while self._settled:
            topic, is_written = self._settled.popleft()
            if not is_written:
                writing.failed()
            elif said := writing.acknowledged(topic, now_s):
                log.info("%s", said)
        if writing.is_worth_a_line(now_s):
            self._errands.explain(writing.topic, lambda: writing.words(time.monotonic()))

    def _fail(self, send: Send, error: BrokerError) -> None:
        if not error.retriable:  # a missing right, say: it would fail again, however often it is sent
            self._refused = self._refused or error
        self.traffic.failures += 1
        self._outcomes.append(SendFailed(send, str(error)))

    # -- closing -----------------------------------------------------------------------------------------------------

    def close(self) -> int:
        """Stop reading, flush, and release every client; returns how many records were not delivered."""
        for pump in (*self._groups.values(), self._reader):
            pump.close(CLOSE_S)
        self._errands.close()
        undelivered = self._producer.close(CLOSE_S)
        if undelivered:
            log.error("%d records of run %s were not delivered within %.0f s", undelivered, self._run, CLOSE_S)
        return undelivered


@lru_cache(maxsize=64)
def _stream(topic: str) -> Stream:
    parsed = parse_topic(topic)
    if parsed is None:
        raise AssertionError(f"a record of topic {topic!r}, which was not asked for")
    return parsed[1]
