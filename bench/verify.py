"""Bytes a second of verifying a run, over those of the same bytes read, hashed once and applied.

The other side is what no verification can do without: every record of the run consumed, one SHA-256 over all of it, and
one update for every delta. What verifying adds is decoding, a digest a record instead of one in all, the digests of
every recomputed state (of AdamW, three times the model), and all comparisons; it gains what partitions do side by side.
"""

import hashlib
import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np

from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.port import Broker, Record, Start
from driftline.broker.topics import Stream, topic_name
from driftline.consumers.server.shard import Shard
from driftline.ledger.follower import Model
from driftline.producers.deltas import Gradient
from driftline.producers.proposal import Offer
from driftline.replay.verify.reading import verify_run
from driftline.schemas.codec import decode
from driftline.schemas.model.layout import MAX_SHARD_ELEMENTS, Layout, Segment
from driftline.schemas.model.tensors import decode_fp32
from driftline.schemas.records import Delta
from driftline.schemas.run.config import RuleConfig, RunConfig
from driftline.testing import run_in_process

RUN = "bench-verify"
PARTITIONS = 4
PROVEN = (Stream.LEDGER, Stream.SNAPSHOTS, Stream.DELTAS, Stream.PARAMETERS)
WAIT_S = 60.0


def verify_over_raw(bootstrap_servers: str, *, shards: int, versions: int, rounds: int) -> dict[str, float]:
    """Train one run of AdamW, then read it both ways in turn; return the ratio of medians and the spread."""
    broker = KafkaBroker(KafkaSettings(bootstrap_servers))
    offer = _offer(shards * MAX_SHARD_ELEMENTS, versions)
    run_in_process(broker, offer, ["bench"], _noise, timeout_s=600.0)
    raw_s: list[float] = []
    ours_s: list[float] = []
    alone_s: list[float] = []
    for _ in range(rounds + 1):  # the first one warms Kafka's caches
        raw_s.append(_seconds(lambda: _raw(broker, offer)))
        ours_s.append(_seconds(lambda: _verify(broker, versions)))
        alone_s.append(_seconds(lambda: _verify(broker, versions, threads=1)))
    size = _verify(broker, versions)
    return {
        **_ratio("verify_over_raw", raw_s[1:], ours_s[1:]),
        **_ratio("verify_over_raw_one_thread", raw_s[1:], alone_s[1:]),
        "verify_mb": size / 1e6,
        "verify_mb_s": size / 1e6 / statistics.median(ours_s[1:]),
        "verify_one_thread_mb_s": size / 1e6 / statistics.median(alone_s[1:]),
        "verify_raw_mb_s": size / 1e6 / statistics.median(raw_s[1:]),
        "verify_versions_s": versions / statistics.median(ours_s[1:]),
    }


def _seconds(work: Callable[[], object]) -> float:
    began_s = time.monotonic()
    work()
    return time.monotonic() - began_s


def _verify(broker: Broker, versions: int, threads: int | None = None) -> int:
    """Verify the run; return the bytes that were read."""
    report = verify_run(broker, RUN, threads=threads)
    if not report.is_proven or report.equal != versions + 1:
        raise RuntimeError(f"the run of the benchmark is not proven: {report}")
    return report.counts["bytes"]


def _ratio(name: str, raw_s: list[float], ours_s: list[float]) -> dict[str, float]:
    ratios = [raw / ours for raw, ours in zip(raw_s, ours_s, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    return {name: statistics.median(ratios), f"{name}_p25": low, f"{name}_p75": high}


def _offer(elements: int, versions: int) -> Offer:
    layout = Layout((Segment("weight", (), (elements,), "float32", "parameter", 0, 0),), PARTITIONS)
    rule = RuleConfig(name="adamw", groups=({"lr": 1e-3},))
    config = RunConfig(name=RUN, workers=1, steps=versions, partitions=PARTITIONS, rule=rule)
    return Offer(config=config, layout=layout, masters=np.zeros(elements, np.float32))


def _noise(_: str, model: Model, cursor: int) -> Gradient:
    flat = np.random.default_rng(cursor).standard_normal(model.flat.size, np.float32)
    return Gradient(flat=flat, presence=[True], weight=1.0, loss=0.0, cursor=cursor)


def _raw(broker: Broker, offer: Offer) -> None:
    """Read everything, hash it, and apply every delta; check nothing."""
    digest = hashlib.sha256()
    shards = [Shard(offer.layout, offer.config.rule, shard, offer.masters[slice(*offer.layout.shard_range(shard))])
              for shard in range(offer.layout.shard_count)]  # fmt: skip
    deltas = topic_name(RUN, Stream.DELTAS)
    for record in _records(broker):
        digest.update(record.value or b"")
        if record.topic == deltas:
            _apply(shards, record.value)


def _apply(shards: list[Shard], value: bytes | None) -> None:
    delta = decode(value)
    if isinstance(delta, Delta):
        shard = shards[delta.shard]
        gradient = decode_fp32(delta.payload, delta.elements)
        shard.apply(shard.version + 1, [(np.float32(1.0), gradient, [True])], [1e-3], 1.0)


def _records(broker: Broker) -> Iterator[Record]:
    """Yield every record of every partition that a proof reads, as fast as they come, and wait for none behind them."""
    admin, reader = broker.admin(), broker.reader()
    topics = [topic_name(RUN, stream) for stream in PROVEN]
    left = {
        (topic, partition): one.end for topic in topics for partition, one in admin.bounds(topic).items() if one.end
    }
    admin.close()
    try:
        for topic, partition in left:
            reader.read(topic, partition, Start.BEGINNING)
        deadline_s = time.monotonic() + WAIT_S
        while left and time.monotonic() < deadline_s:
            found = reader.poll(1.0)
            if isinstance(found, Record):
                yield found
                if found.offset + 1 >= left.get((found.topic, found.partition), 0):
                    left.pop((found.topic, found.partition), None)
        if left:
            raise TimeoutError(f"{sorted(left)} were not read within {WAIT_S:.0f} s")
    finally:
        reader.close()
