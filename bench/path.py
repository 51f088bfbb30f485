"""Bytes a second of one update, worker → log → server → log → worker, over those of two raw hops of the same bytes.

Both sides run in turn on one warmed broker, from one client process, against one process on the other side (a real
server here, an echo there). A round sends every shard once and has every shard back; what the server does in between
(digests, finiteness, the decision in the ledger, the update rule) is what the ratio shows the cost of.
"""

import multiprocessing
import os
import statistics
import threading
import time
from collections.abc import Callable

import numpy as np

from bench.raw_path import RawPath
from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.topics import run_topics
from driftline.consumers.server.serving import serve
from driftline.ledger.follower import Model
from driftline.producers.deltas import Gradient
from driftline.producers.proposal import Offer
from driftline.producers.session import WorkerSession
from driftline.runtime.running import Running
from driftline.schemas.model.layout import MAX_SHARD_ELEMENTS, Layout, Segment
from driftline.schemas.run.config import RuleConfig, RunConfig

PARTITIONS = 4
WARM_UP_S = 15.0
"""Seconds of rounds that do not count. A broker's JVM translates itself in the first thousands of requests."""
STEPS = 1_000_000
"""More versions than are ever made: the run is left, not ended."""
WAIT_S = 60.0


def path_ratio(bootstrap_servers: str, *, shards: int, rounds: int) -> dict[str, float]:
    """Measure alternating rounds; return the ratio of medians and the spread of both sides."""
    elements = shards * MAX_SHARD_ELEMENTS
    raw = RawPath(bootstrap_servers, PARTITIONS)
    ours = OurPath(bootstrap_servers, f"bench-{shards}", elements)
    values = [np.random.default_rng(0).bytes(4 * MAX_SHARD_ELEMENTS) for _ in range(shards)]
    raw_s: list[float] = []
    ours_s: list[float] = []
    try:
        warm_s = time.monotonic() + WARM_UP_S
        while time.monotonic() < warm_s:
            raw.round_s(values)
            ours.round_s()
        for _ in range(rounds):
            raw_s.append(raw.round_s(values))
            ours_s.append(ours.round_s())
    finally:
        ours.close()
        raw.close()
    return _summary(shards, raw_s, ours_s)


def _summary(shards: int, raw_s: list[float], ours_s: list[float]) -> dict[str, float]:
    megabytes = 2 * shards * 4 * MAX_SHARD_ELEMENTS / 1e6  # there and back
    ratios = [raw / ours for raw, ours in zip(raw_s, ours_s, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    raw_p99, ours_p99 = (statistics.quantiles(side, n=100)[98] for side in (raw_s, ours_s))
    return {
        f"freshness_ratio_{shards}_p50": statistics.median(raw_s) / statistics.median(ours_s),
        f"freshness_ratio_{shards}_p99": raw_p99 / ours_p99,
        f"path_ratio_{shards}": statistics.median(ratios),
        f"path_ratio_{shards}_p25": low,
        f"path_ratio_{shards}_p75": high,
        f"path_{shards}_mb_s": megabytes / statistics.median(ours_s),
        f"path_{shards}_raw_mb_s": megabytes / statistics.median(raw_s),
        f"path_{shards}_round_ms": 1000 * statistics.median(ours_s),
        f"path_{shards}_raw_round_ms": 1000 * statistics.median(raw_s),
    }


class OurPath:
    """One worker and one server on a run of plain SGD."""

    def __init__(self, bootstrap_servers: str, run: str, elements: int) -> None:
        layout = Layout((Segment("weight", (), (elements,), "float32", "parameter", 0, 0),), PARTITIONS)
        rule = RuleConfig(name="sgd", groups=({"lr": 1e-3},))
        config = RunConfig(name=run, workers=1, steps=STEPS, partitions=PARTITIONS, rule=rule)
        offer = Offer(config=config, layout=layout, masters=np.zeros(elements, np.float32))
        self._gradient = np.random.default_rng(1).standard_normal(elements).astype(np.float32)
        broker = KafkaBroker(KafkaSettings(bootstrap_servers))
        admin = broker.admin()
        admin.create(run_topics(run, PARTITIONS))
        admin.close()
        context = multiprocessing.get_context("spawn")
        self._server = context.Process(target=_serve, args=(bootstrap_servers, run), daemon=True)
        self._server.start()
        self._stop = threading.Event()
        self._session = WorkerSession("bench", os.urandom(16), offer, os.urandom(16))
        self._running: Running = Running(broker, run, self._session, "bench")
        self._running.__enter__()
        self._model = self._wait(self._session.may_start, "the first clock")

    @property
    def server_pid(self) -> int:
        """The server's process."""
        return self._server.pid or 0

    @property
    def version(self) -> int:
        """Of the model that the worker has."""
        return self._model.version

    def round_s(self) -> float:
        """Contribute one gradient and wait for the version made of it; return the seconds that it took."""
        gradient = Gradient(flat=self._gradient, presence=[True], weight=1.0, loss=0.0, cursor=self._model.version)
        began_s = time.monotonic()
        self._running.perform(lambda: self._session.contribute(self._model, gradient))
        self._model = self._wait(self._session.may_start, "the next version")
        return time.monotonic() - began_s

    def _wait(self, question: Callable[[], Model | None], what: str) -> Model:
        found = self._running.wait_for(question, stop=self._stop, timeout_s=WAIT_S, whom=lambda: what)
        if found is None:
            raise RuntimeError(f"the run ended while the benchmark waited for {what}: {self._running.finished}")
        return found

    def close(self) -> None:
        """End the server process and release the clients."""
        self._running.close()
        self._server.terminate()
        self._server.join(WAIT_S)


def _serve(bootstrap_servers: str, run: str) -> None:
    serve(KafkaBroker(KafkaSettings(bootstrap_servers)), run, "server-1", stop=threading.Event())
