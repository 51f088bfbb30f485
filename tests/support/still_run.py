"""A whole run without threads, chance or a clock of its own: the same log to the last byte, each time it is made.

Servers, workers and an evaluator are the real state machines. Every one of them is handed what it has to read, in turn
and in order, and then the time, which moves on by hand.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from driftline.broker.port import EndReached, Record, Start
from driftline.broker.topics import Stream, parse_topic, run_topics, topic_name
from driftline.consumers.server.server import Server
from driftline.ledger.follower import Model
from driftline.producers.deltas import Gradient
from driftline.producers.proposal import Offer
from driftline.producers.session import WorkerSession
from driftline.schemas.effects import (
    CaughtUp,
    Effect,
    Finish,
    Input,
    PartitionsAssigned,
    Read,
    Received,
    ResumeDeltas,
    Send,
    Sent,
    StopReading,
    Timer,
    Trim,
)
from driftline.testing import ManualClock
from driftline.testing.memory import MemoryBroker
from driftline.training.task.evaluator import EvaluatorSession

Core = Server | WorkerSession | EvaluatorSession
Compute = Callable[[str, Model, int], Gradient]
"""(worker, model, batches read so far) → gradient."""

Measure = Callable[[Model], Mapping[str, float]]

EPOCH_MS = 1_767_225_600_000
"""Append time at the beginning: 2026-01-01, 00:00 UTC."""

ROUND_S = 0.02
MOST_ROUNDS = 2_000


class StillRun:
    """One run in a broker in memory.

    Args:
        offer: what is trained.
        workers: their names.
        servers: how many; they share the partitions in turn, and the first one coordinates.
        compute: the workers' gradients.
        measure: the evaluator's metrics.

    Attributes:
        broker: holds the log.
        servers: by name.
        workers: by name.
    """

    def __init__(
        self, offer: Offer, workers: Sequence[str], compute: Compute, measure: Measure, *, servers: int = 1
    ) -> None:
        self._clock = ManualClock()
        self._rng = random.Random(0)  # noqa: S311 - the same each time is what is wanted
        self._run, self._compute, self._measure = offer.config.name, compute, measure
        self.broker = MemoryBroker(self._clock.now_s, epoch_ms=EPOCH_MS)
        self.broker.admin().create(run_topics(self._run, offer.config.partitions))
        names = [f"server-{number}" for number in range(1, servers + 1)]
        self.servers = {name: Server(name, self._rng.randbytes(16), self._rng) for name in names}
        self.workers = {
            name: WorkerSession(name, self._rng.randbytes(16), offer, self._rng.randbytes(16)) for name in workers
        }
        self.evaluator = EvaluatorSession("evaluator", self._rng.randbytes(16))
        cores: list[Core] = [*self.servers.values(), *self.workers.values(), self.evaluator]
        self._members = [_Member(self.broker, self._run, core) for core in cores]
        for index, member in enumerate(self._members[:servers]):
            member.assign(Stream.DELTAS, tuple(range(index, offer.config.partitions, servers)))
        self._members[0].assign(Stream.EVENTS, (0,))

    def play(self, until_version: int | None = None) -> None:
        """Go on until all processes have finished, or the evaluator has read a version.

        Raises:
            AssertionError: it does not get there.
        """
        for _ in range(MOST_ROUNDS):
            if all(member.finished for member in self._members):
                return
            if until_version is not None and self.evaluator.state.version >= until_version:
                return
            self._round()
        waiting = {name: one.waiting_for() for name, one in self.workers.items()}
        raise AssertionError(f"the run does not get on: {waiting}")

    def _round(self) -> None:
        for member in self._members:
            member.read_all()
            self._clock.advance(ROUND_S / len(self._members))
            member.feed(Timer(self._clock.now_s()))
            member.perform(self._work(member.core))

    def _work(self, core: Core) -> Iterable[Effect]:
        if isinstance(core, WorkerSession):
            model = core.may_start()
            return [] if model is None else core.contribute(model, self._compute(core.name, model, core.pace))
        if isinstance(core, EvaluatorSession):
            model = core.to_measure()
            return [] if model is None else core.report(model.version, self._measure(model))
        return []


class _Member:
    """One core, what it reads, and what it writes."""

    def __init__(self, broker: MemoryBroker, run: str, core: Core) -> None:
        self.core = core
        self.finished = False
        self._run = run
        self._reader = broker.reader()
        self._producer = broker.producer()
        self._admin = broker.admin()
        self._sent: deque[Sent] = deque()
        self.perform(core.begin())

    def assign(self, stream: Stream, partitions: tuple[int, ...]) -> None:
        """Hand out partitions as a consumer group does; deltas are held until they are asked for."""
        if stream is Stream.EVENTS:
            self._reader.read(topic_name(self._run, stream), 0, Start.END)
        self.feed(PartitionsAssigned(stream, partitions))

    def read_all(self) -> None:
        """Hand over everything that is there."""
        while (found := self._reader.poll(0.0)) is not None:
            self.feed(_input(found))
        self._producer.poll()
        while self._sent:
            self.feed(self._sent.popleft())

    def _told(self, send: Send, offset: int) -> None:
        self._sent.append(Sent.of(send, offset))

    def feed(self, event: Input) -> None:
        """Hand over one input."""
        if not self.finished:
            self.perform(self.core.on(event))

    def perform(self, effects: Iterable[Effect]) -> None:
        """Carry out what the core wants."""
        for effect in effects:
            match effect:
                case Send():
                    topic = topic_name(self._run, effect.stream)
                    told = partial(self._told, effect) if effect.tell else None
                    self._producer.send(topic, effect.partition, effect.value, key=effect.key, on_appended=told)
                case Read():
                    self._reader.read(topic_name(self._run, effect.stream), effect.partition, effect.position)
                case StopReading():
                    self._reader.stop(topic_name(self._run, effect.stream), effect.partition)
                case ResumeDeltas():
                    for index, partition in enumerate(effect.partitions):
                        begin = effect.begin[index] if effect.begin else Start.BEGINNING
                        self._reader.read(topic_name(self._run, Stream.DELTAS), partition, begin)
                case Trim():
                    self._admin.trim(topic_name(self._run, effect.stream), {effect.partition: effect.before})
                case Finish():
                    self.finished = True


def _input(found: Record | EndReached) -> Input:
    parsed = parse_topic(found.topic)
    if parsed is None:
        raise AssertionError(f"no process reads topic {found.topic!r}")
    if isinstance(found, EndReached):
        return CaughtUp(parsed[1], found.partition, found.offset)
    return Received(parsed[1], found.partition, found.offset, found.key, found.value, found.timestamp_ms)
