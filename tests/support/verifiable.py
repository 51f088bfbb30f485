"""Logs to verify: copies of a run's topics in which anything can be changed, and what verification says of them."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from driftline.broker.port import Bounds, Broker, EndReached, Record, Start
from driftline.broker.topics import Stream, run_topics, topic_name
from driftline.errors import Undecodable
from driftline.ledger.chain import Chain
from driftline.ledger.follower import Model
from driftline.producers.deltas import Gradient
from driftline.producers.proposal import Offer
from driftline.replay.verify.findings import Finding
from driftline.replay.verify.verifier import Report, Verifier
from driftline.schemas.codec import decode, encode
from driftline.schemas.digests import seal
from driftline.schemas.model.layout import Layout, Segment
from driftline.schemas.records import AnyRecord, LedgerRecord, PayloadRecord, RunStart, TermStart
from driftline.schemas.run.config import RuleConfig, RunConfig
from driftline.schemas.run.consistency import Consistency
from driftline.testing import run_in_process
from driftline.testing.memory import MemoryBroker

R = TypeVar("R", bound=AnyRecord)
Place = tuple[Stream, int]
Value = bytes | None

PARTITIONS = 4
SIZES = {"first.weight": 4, "first.bias": 1, "second.weight": 9}


def offer(
    run: str,
    workers: int,
    steps: int,
    partitions: int = PARTITIONS,
    sizes: Mapping[str, int] | None = None,
    bounds: Consistency | None = None,
) -> Offer:
    """Return a small model under AdamW: its moments are part of the state, its segments cross shards."""
    segments, at = [], 0
    for name, elements in (sizes or SIZES).items():
        segments.append(Segment(name, (), (elements,), "float32", "parameter", 0, at))
        at += elements
    rule = RuleConfig(name="adamw", groups=({"lr": 0.05},))
    config = RunConfig(
        name=run,
        workers=workers,
        steps=steps,
        partitions=partitions,
        rule=rule,
        consistency=bounds or Consistency(),
        tick_interval_s=0.05,
    )
    masters = np.linspace(-1.0, 1.0, at).astype(np.float32)
    masters[2] = 0.0
    return Offer(config=config, layout=Layout(tuple(segments), partitions), masters=masters)


def compute(worker: str, model: Model, cursor: int) -> Gradient:
    """Return a gradient that depends on worker, model and cursor."""
    rng = np.random.default_rng([cursor, *worker.encode()])
    flat = model.flat + rng.standard_normal(model.flat.size).astype(np.float32)
    return Gradient(flat=flat, presence=[True] * 3, weight=8.0, loss=float(flat @ flat), cursor=cursor)


@dataclass(frozen=True)
class Log:
    """Values of every partition of a run, in order; offsets are places in these lists."""

    values: dict[Place, list[Value]]

    @classmethod
    def of(cls, broker: Broker, run: str) -> "Log":
        """Copy a run's topics."""
        values: dict[Place, list[Value]] = {}
        admin, reader = broker.admin(), broker.reader()
        for stream in Stream:
            topic = topic_name(run, stream)
            for partition, bounds in admin.bounds(topic).items():
                reader.read(topic, partition, Start.BEGINNING)
                values[stream, partition] = [record.value for record in _until(reader.poll, bounds)]
                reader.stop(topic, partition)
        admin.close()
        reader.close()
        return cls(values)

    def copy(self) -> "Log":
        """Return one that can be changed."""
        return Log({place: list(values) for place, values in self.values.items()})

    @property
    def ledger(self) -> list[Value]:
        """The ledger's values."""
        return self.values[Stream.LEDGER, 0]

    @property
    def run(self) -> bytes:
        """The run's UUID."""
        return next(record.run for _, record in self.find(Stream.LEDGER, 0, RunStart))

    def find(self, stream: Stream, partition: int, kind: type[R]) -> Iterator[tuple[int, R]]:
        """Yield offset and record of every record of one type."""
        for offset, value in enumerate(self.values[stream, partition]):
            try:
                record = decode(value)
            except Undecodable:
                continue
            if isinstance(record, kind):
                yield offset, record

    def flip(self, stream: Stream, partition: int, offset: int, at: int = -1) -> None:
        """Flip a bit of one byte, by default of the last: of a payload."""
        value = bytearray(self.values[stream, partition][offset] or b"")
        value[at] ^= 1
        self.values[stream, partition][offset] = bytes(value)

    def reseal(self, stream: Stream, partition: int, offset: int, record: PayloadRecord) -> None:
        """Put a payload record in, with the digest that it then has."""
        self.values[stream, partition][offset] = seal(self.run, record)[0].tobytes()

    def rechain(self, change: Callable[[LedgerRecord], LedgerRecord]) -> None:
        """Change ledger records and give every record behind them the parent that it then needs."""
        chain = Chain()
        before = Chain()
        for offset, value in enumerate(self.ledger):
            record = decode(value)
            assert isinstance(record, LedgerRecord)
            assert value is not None
            if not before.accept(record, value):
                continue
            changed = change(record)
            if not isinstance(changed, TermStart):
                changed = dataclasses.replace(changed, parent=chain.head)
            self.ledger[offset] = encode(changed)
            chain.accept(changed, encode(changed))

    def verify(self, expect: str = "") -> Report:
        """Verify it."""
        verifier = Verifier(expect)
        for offset, value in enumerate(self.ledger):
            verifier.on_ledger(offset, value)
        for proof in verifier.on_ledger_end():
            number = proof.owned.partition
            proof.prove(
                iter(list(enumerate(self.values[Stream.SNAPSHOTS, number]))),
                iter(list(enumerate(self.values[Stream.DELTAS, number]))),
                iter(list(enumerate(self.values[Stream.PARAMETERS, number]))),
            )
        return verifier.report()

    def write(self, broker: Broker, run: str) -> None:
        """Put it into a broker, as run ``run``."""
        admin, producer = broker.admin(), broker.producer()
        admin.create(run_topics(run, len([one for one in self.values if one[0] is Stream.DELTAS])))
        for (stream, partition), values in self.values.items():
            for offset, value in enumerate(values):
                producer.send(topic_name(run, stream), partition, value, key=str(offset).encode())
        assert producer.close(20) == 0
        admin.close()


def _until(poll: Callable[[float], Record | EndReached | None], bounds: Bounds) -> Iterator[Record]:
    if bounds.begin == bounds.end:
        return
    while True:
        found = poll(5.0)
        assert found is not None
        if isinstance(found, EndReached):
            return
        yield found


def trained(
    run: str = "clean",
    workers: int = 2,
    steps: int = 6,
    partitions: int = PARTITIONS,
    sizes: Mapping[str, int] | None = None,
) -> Log:
    """Return the log of a whole run, as servers and workers write it."""
    broker = MemoryBroker()
    names = [f"worker-{index}" for index in range(workers)]
    run_in_process(broker, offer(run, workers, steps, partitions, sizes), names, compute, servers=2)
    return Log.of(broker, run)


def bad(report: Report) -> Finding:
    """Return the first bad place of a run that is not proven."""
    assert not report.is_proven
    assert report.first_bad is not None
    return report.first_bad
