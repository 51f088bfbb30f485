"""A run as a real ledger records it, small enough to count by hand: two workers, three versions."""

from collections.abc import Iterable

from driftline.broker.topics import Stream, run_topics, topic_name
from driftline.ledger.chain import Chain
from driftline.schemas.codec import encode
from driftline.schemas.model.layout import Layout, Segment
from driftline.schemas.records import (
    Evaluation,
    Event,
    GroupId,
    Heartbeat,
    Join,
    LedgerRecord,
    Membership,
    PartitionPosition,
    Rejection,
    Removal,
    RunEnd,
    RunStart,
    ServerState,
    StateDigest,
    TermStart,
    Use,
    Version,
)
from driftline.schemas.run.config import RuleConfig, RunConfig
from driftline.schemas.run.config_json import run_config_to_json
from driftline.testing.memory import MemoryBroker

UUID = bytes(range(16))
FIRST, SECOND = b"1" * 16, b"2" * 16
ELEMENTS = 10
STATE, PARAMETERS = b"s" * 32, b"p" * 32
G1, G2 = GroupId(2, 0), GroupId(2, 1)

LAYOUT = Layout((Segment("weight", (), (ELEMENTS,), "float32", "parameter", 0, 0),), 4)
CONFIG = RunConfig(name="told", workers=2, steps=3, rule=RuleConfig(name="sgd", groups=({"lr": 0.1},)))


class Ledger:
    """Writes records as a coordinator does: each with the head of those before it."""

    def __init__(self, config: RunConfig = CONFIG) -> None:
        self.config = config
        self.chain = Chain()
        self.values: list[bytes] = []

    def add(self, kind: type[LedgerRecord], **fields: object) -> "Ledger":
        """Append one valid record."""
        term = fields.pop("term", self.chain.term)
        record = kind(term=term, parent=self.chain.head, **fields)  # type: ignore[arg-type]
        self.append(record)
        return self

    def append(self, record: LedgerRecord) -> None:
        """Append a record as it is, valid or void."""
        value = bytes(encode(record))
        self.chain.accept(record, value)
        self.values.append(value)

    def start(self) -> "Ledger":
        """Begin the run with both workers."""
        self.add(TermStart, term=1, nonce=bytes(16), coordinator="server-1", incarnation=bytes(16))
        self.add(
            RunStart,
            run=UUID,
            name="told",
            config=run_config_to_json(self.config),
            layout=LAYOUT.to_json(),
            layout_fingerprint=LAYOUT.fingerprint(),
            partitions=4,
            shards=(bytes(32),) * 4,
            proposer="worker-1",
        )
        joins = (Join(worker="worker-1", incarnation=FIRST), Join(worker="worker-2", incarnation=SECOND))
        return self.add(Membership, joins=joins, removals=(), raised=0)

    def version(self, number: int, *uses: Use, states: tuple[StateDigest, ...] = ()) -> "Ledger":
        """Make a version."""
        return self.add(
            Version,
            version=number,
            uses=uses,
            learning_rates=(0.1,),
            rho=1.0,
            positions=(-1,) * 4,
            publish=True,
            states=states,
            buffers_of=-1,
        )


def use(group: GroupId, clock: int, *, kind: str = "delta", staleness: int = 0) -> Use:
    """Return one settled clock: 32 samples with a loss of 0.5, or a skip."""
    return Use(
        group=group,
        clock=clock,
        kind=kind,
        base_version=clock - 1 - staleness,
        staleness=staleness,
        weight=32.0 if kind == "delta" else 0.0,
        loss=0.5,
        cursor=clock - 1,
        coefficient=0.5,
        root=bytes(32),
    )


def whole_run() -> Ledger:
    """Return the whole story: the second worker is rejected once and removed, the end is a success."""
    ledger = Ledger().start()
    ledger.version(1, use(G1, 1), use(G2, 1))
    stale_term = ledger.values[0]
    ledger.version(2, use(G1, 2), use(G2, 2, kind="skip"))
    ledger.values.append(stale_term)  # a zombie of the same term: void
    ledger.add(Rejection, group=G2, clock=3, reason="not finite")
    removal = Removal(group=G2, worker="worker-2", reason="no heartbeat in 12 ticks")
    ledger.add(Membership, joins=(), removals=(removal,), raised=0)
    ledger.version(3, use(G1, 3))
    ledger.add(Evaluation, version=3, evaluator="evaluator", metrics={"accuracy": 0.75, "odd": float("nan")})
    state = StateDigest(version=3, state=STATE, parameters=PARAMETERS)
    return ledger.add(RunEnd, version=3, reason="reached version 3", failure="", states=(state,))


def events() -> list[Event]:
    """Return what members say: two servers, one of them with counters, and both workers."""
    return [
        beat("worker-1", FIRST, clock=3, waiting=0.25),
        beat("worker-2", SECOND, clock=2, waiting=0.75),
        server("server-1", (0, 2), {"duplicates": 2, "undecodable": 1}),
        server("server-2", (1, 3), {}),
    ]


def beat(worker: str, incarnation: bytes, *, clock: int = 0, waiting: float = 0.0) -> Heartbeat:
    """Return a worker's heartbeat."""
    return Heartbeat(
        run=UUID,
        member=worker,
        incarnation=incarnation,
        role="worker",
        version=3,
        clock=clock,
        waiting_share=waiting,
    )


def server(name: str, partitions: tuple[int, ...], counters: dict[str, int]) -> ServerState:
    """Return a server's word on itself."""
    return ServerState(
        run=UUID,
        server=name,
        incarnation=name.encode().ljust(16, b"-"),
        version=3,
        head=bytes(32),
        partitions=tuple(PartitionPosition(partition=one, position=0) for one in partitions),
        shards=(),
        failure="",
        counters=counters,
    )


def write(broker: MemoryBroker, run: str, ledger: Iterable[bytes], said: Iterable[Event] = ()) -> None:
    """Put a run into a broker."""
    broker.admin().create(run_topics(run, 4))
    producer = broker.producer()
    for value in ledger:
        producer.send(topic_name(run, Stream.LEDGER), 0, value)
    for event in said:
        producer.send(topic_name(run, Stream.EVENTS), 0, encode(event))
    assert producer.close() == 0
