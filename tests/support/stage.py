"""A run on a stage, for tests of the cores: a log in memory, every record delivered at once and in order."""

import random
from collections import deque
from collections.abc import Iterable, Sequence

import numpy as np

from driftline.broker.port import Start, Tail
from driftline.broker.topics import SHARDED, Stream
from driftline.consumers.server.server import Server
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
    Send,
    Sent,
    StopReading,
    Timer,
)
from driftline.schemas.model.layout import Layout, Segment
from driftline.schemas.run.config import RuleConfig, RunConfig
from driftline.training.task.evaluator import EvaluatorSession

Core = Server | WorkerSession | EvaluatorSession
Place = tuple[Stream, int]

ELEMENTS = 10
PARTITIONS = 2
TICK_S = 0.3

LAYOUT = Layout((Segment("weight", (), (ELEMENTS,), "float32", "parameter", 0, 0),), PARTITIONS)
CONFIG = RunConfig(
    name="staged",
    workers=1,
    steps=4,
    partitions=PARTITIONS,
    rule=RuleConfig(name="sgd", groups=({"lr": 0.1},)),
)
OFFER = Offer(config=CONFIG, layout=LAYOUT, masters=np.arange(ELEMENTS, dtype=np.float32))


class Stage:
    """One server, one worker and one evaluator, and the log between them."""

    def __init__(self) -> None:
        self.server = Server("server-1", b"s" * 16, random.Random(0))  # noqa: S311 - a test
        self.worker = WorkerSession("worker-1", b"w" * 16, OFFER, b"r" * 16)
        self.evaluator = EvaluatorSession("evaluator", b"e" * 16)
        self.cores: Sequence[Core] = (self.server, self.worker, self.evaluator)
        self.log: dict[Place, list[Received]] = {
            (stream, partition): [] for stream in Stream for partition in range(PARTITIONS if stream in SHARDED else 1)
        }
        self.finishes: dict[str, Finish] = {}
        self._inbox: deque[tuple[Core, Input]] = deque()
        self._reading: set[tuple[str, Place]] = set()
        self._now_s = 0.0
        for core in self.cores:
            self._perform(core, core.begin())
        for stream in (Stream.DELTAS, Stream.EVENTS):
            partitions = tuple(partition for known, partition in self.log if known is stream)
            self._inbox.append((self.server, PartitionsAssigned(stream, partitions)))
            self._reading |= {("server-1", (stream, partition)) for partition in partitions}

    def append(self, stream: Stream, partition: int, value: bytes | None) -> None:
        """Put a record into the log, and before every reader of it."""
        place = (stream, partition)
        record = Received(stream, partition, len(self.log[place]), None, value)
        self.log[place].append(record)
        for core in self.cores:
            if (core.name, place) in self._reading:
                self._inbox.append((core, record))

    def acknowledge(self, core: Core, send: Send) -> None:
        """Tell the sender of the last record of a partition that it is durable."""
        self._inbox.append((core, Sent.of(send, len(self.log[send.stream, send.partition]) - 1)))

    def settle(self) -> None:
        """Deliver until nothing is left to deliver."""
        while self._inbox:
            core, event = self._inbox.popleft()
            self._perform(core, core.on(event))

    def tick(self) -> None:
        """Let time pass, then deliver."""
        self._now_s += TICK_S
        for core in self.cores:
            self._perform(core, core.on(Timer(self._now_s)))
        self.settle()

    def work(self) -> None:
        """Let the worker spend a clock, if it may, and the evaluator measure."""
        model = self.worker.may_start()
        if model is not None:
            flat = model.flat * np.float32(0.5) + np.float32(self.worker.pace)
            gradient = Gradient(flat=flat, presence=[True], weight=3.0, loss=1.0, cursor=self.worker.pace)
            self._perform(self.worker, self.worker.contribute(model, gradient))
        found = self.evaluator.to_measure()
        if found is not None:
            self._perform(self.evaluator, self.evaluator.report(found.version, {"sum": float(found.flat.sum())}))
        self.settle()

    def play(self, until_version: int, *, most_ticks: int = 60) -> None:
        """Go on until the worker has read a version, or all processes have finished."""
        for _ in range(most_ticks):
            if self.worker.state.version >= until_version or len(self.finishes) == len(self.cores):
                return
            self.tick()
            self.work()
        raise AssertionError(f"stuck at version {self.worker.state.version}: waiting for {self.worker.waiting_for()}")

    def end(self) -> str:
        """Play to the end and return the digest of the final state."""
        self.play(CONFIG.steps)
        for _ in range(20):
            if len(self.finishes) == len(self.cores):
                break
            self.tick()
            self.work()
        return self.worker.state.states[CONFIG.steps].state.hex()

    def _perform(self, core: Core, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    value = None if effect.value is None else bytes(effect.value)
                    self.append(effect.stream, effect.partition, value)
                    if effect.tell:
                        self.acknowledge(core, effect)
                case Read():
                    self._read(core, effect)
                case StopReading():
                    self._reading.discard((core.name, (effect.stream, effect.partition)))
                case Finish():
                    self.finishes[core.name] = effect
                case _:
                    pass  # nothing is held back on a stage

    def _read(self, core: Core, read: Read) -> None:
        place = (read.stream, read.partition)
        if place not in self.log:
            return  # a partition that is not there
        records = self.log[place]
        match read.position:
            case Tail(count):
                records = records[-count:]
            case Start.END:
                records = []
            case Start.BEGINNING:
                pass
            case int(offset):
                records = records[offset:]
        self._inbox.extend((core, record) for record in records)
        self._inbox.append((core, CaughtUp(read.stream, read.partition, len(self.log[place]))))
        self._reading.add((core.name, place))
