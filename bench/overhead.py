"""Bytes of an update that are not tensor, over those that are: headers, digests, events, the ledger.

Counted in the log of a real run with full shards: every record of the run from the first version to the last.
"""

from collections.abc import Iterator

from bench.following import folded
from bench.roles import PARTITIONS, Job, server_and_workers
from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.port import Record, Start
from driftline.broker.topics import Stream, topic_name
from driftline.schemas.codec import decode
from driftline.schemas.model.layout import MAX_SHARD_ELEMENTS
from driftline.schemas.records import Delta, Parameters
from driftline.schemas.run.config import RuleConfig, RunConfig

RUN = "bench-overhead"
UPDATE = (Stream.DELTAS, Stream.EVENTS, Stream.LEDGER, Stream.PARAMETERS)


def header_overhead(bootstrap_servers: str, *, versions: int) -> dict[str, float]:
    """Return ``header_overhead`` of a run of 4 full shards, ticks and heartbeats included."""
    config = RunConfig(
        name=RUN, workers=1, steps=versions, partitions=PARTITIONS, rule=RuleConfig(name="sgd", groups=({"lr": 1e-3},))
    )
    with server_and_workers(Job(bootstrap_servers, config, PARTITIONS * MAX_SHARD_ELEMENTS)):
        for _ in folded(bootstrap_servers, RUN):
            pass
    whole = tensor = 0
    for record in _records(bootstrap_servers):
        value = record.value or b""
        whole += len(value) + len(record.key or b"")
        tensor += _payload(value) if record.topic in _sharded() else 0
    return {"header_overhead": (whole - tensor) / tensor, "update_payload_mb": tensor / versions / 1e6}


def _sharded() -> tuple[str, str]:
    return topic_name(RUN, Stream.DELTAS), topic_name(RUN, Stream.PARAMETERS)


def _payload(value: bytes) -> int:
    found = decode(value)
    if not isinstance(found, Delta | Parameters):
        raise TypeError(f"{type(found).__name__} among the tensors")
    return 4 * found.elements


def _records(bootstrap_servers: str) -> Iterator[Record]:
    broker = KafkaBroker(KafkaSettings(bootstrap_servers))
    admin, reader = broker.admin(), broker.reader()
    left = {
        (topic_name(RUN, stream), partition): bounds.end
        for stream in UPDATE
        for partition, bounds in admin.bounds(topic_name(RUN, stream)).items()
        if bounds.end
    }
    admin.close()
    try:
        for topic, partition in left:
            reader.read(topic, partition, Start.BEGINNING)
        while left:
            found = reader.poll(30.0)
            if found is None:
                raise TimeoutError(f"{sorted(left)} were not read within 30 s")
            if isinstance(found, Record):
                yield found
                if found.offset + 1 >= left.get((found.topic, found.partition), 0):
                    left.pop((found.topic, found.partition), None)
    finally:
        reader.close()
