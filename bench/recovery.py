"""Seconds from a kill -9 to the next version that is made of newer work, and beside them what Kafka alone needs.

Each kill is one of a run of real processes, whose workers compute next to nothing; its promises are checked as in the
kill matrix. A time ends with the second version behind the kill: the first may have been decided already, the second is
made of work on a version that was published behind the kill.
"""

import statistics
import time
from pathlib import Path

from bench.raw_recovery import raw_leader_s, raw_takeover_s
from driftline.broker.embedded import EmbeddedBroker
from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.port import Start
from driftline.broker.topics import Stream, topic_name
from driftline.errors import Undecodable
from driftline.schemas.codec import decode
from driftline.schemas.records import ServerState
from driftline.testing.kills.job import SERVERS, Job
from driftline.testing.kills.play import Outcome, Play
from driftline.training.faults import Fault, parse_script
from driftline.training.reading import until_end

FIRST = 30
"""Version of the first kill."""

APART, APART_NODES = 40, 300
"""Versions between two kills: what was killed is back by then, also a node of the broker."""

CLOCK_S = 0.03


def recovery(folder: Path, *, kills: int) -> dict[str, float]:
    """Kill servers, workers and leaders of the ledger, about ``kills`` times each.

    Raises:
        RuntimeError: a promise was not kept.
    """
    with EmbeddedBroker(folder / "one", prepare=False) as one:
        found = _server(one, folder, kills) | _worker(one, folder, kills)
        found |= _summary("takeover_server_raw_s", raw_takeover_s(one.bootstrap_servers, kills))
    with EmbeddedBroker(folder / "three", nodes=3, prepare=False) as three:
        script = ", ".join(f"kill leader@{FIRST + APART_NODES * index}" for index in range(kills))
        outcome, _ = _played(three, folder, "leader", script, APART_NODES)
        found |= _summary("takeover_leader_s", [gap for gap in outcome.gaps_s if gap is not None])
        found |= _summary("takeover_leader_raw_s", raw_leader_s(three, kills))
    return found


def _server(broker: EmbeddedBroker, folder: Path, kills: int) -> dict[str, float]:
    """Kill the servers in turn, and count those that owned something: one of three is a standby."""
    rounds = kills * len(SERVERS) // (len(SERVERS) - 1) + 1
    script = ", ".join(
        f"kill {SERVERS[index % len(SERVERS)]}@{FIRST + APART * index} for 500ms" for index in range(rounds)
    )
    outcome, run = _played(broker, folder, "server", script, APART)
    owned = _owners(broker.bootstrap_servers, run)
    gaps = [
        gap
        for one, gap in zip(outcome.disturbances, outcome.gaps_s, strict=True)
        if gap is not None and one.at_s is not None and _owns(owned, one.hit[0], one.at_s)
    ]
    return _summary("takeover_server_s", gaps)


def _worker(broker: EmbeddedBroker, folder: Path, kills: int) -> dict[str, float]:
    """Kill a worker that comes back long after the others have gone on without it."""
    script = ", ".join(f"kill worker-{1 + index % 2}@{FIRST + 3 * APART * index} for 6s" for index in range(kills))
    outcome, _ = _played(broker, folder, "worker", script, 3 * APART, same_bits=False)
    return _summary("worker_loss_s", [gap for gap in outcome.gaps_s if gap is not None])


def _played(
    broker: EmbeddedBroker, folder: Path, name: str, script: str, apart: int, *, same_bits: bool = True
) -> tuple[Outcome, str]:
    faults: tuple[Fault, ...] = parse_script(script)
    run = f"bench-{name}-{time.time_ns():x}"
    job = Job(run=run, steps=faults[-1].version + apart, pause_s=CLOCK_S, snapshot_every=100)
    outcome = Play(broker, job, faults, folder / run, same_bits=same_bits).run()
    if outcome.broken:
        raise RuntimeError("\n".join(outcome.broken))
    return outcome, run


def _owners(bootstrap_servers: str, run: str) -> list[tuple[float, str, bool]]:
    """Return what servers said of themselves: monotonic time, name, and whether they owned something."""
    shift_s = time.monotonic() - time.time()
    said = []
    broker = KafkaBroker(KafkaSettings(bootstrap_servers))
    for record in until_end(broker, topic_name(run, Stream.EVENTS), 0, Start.BEGINNING, None):
        try:
            event = decode(record.value)
        except Undecodable:
            continue
        if isinstance(event, ServerState):
            said.append((record.timestamp_ms / 1000 + shift_s, event.server, bool(event.partitions)))
    return said


def _owns(said: list[tuple[float, str, bool]], server: str, at_s: float) -> bool:
    before = [owns for time_s, name, owns in said if name == server and time_s < at_s]
    return bool(before) and before[-1]


def _summary(key: str, seconds: list[float]) -> dict[str, float]:
    return {
        f"{key}_p50": statistics.median(seconds),
        f"{key}_min": min(seconds),
        f"{key}_max": max(seconds),
        f"{key}_kills": float(len(seconds)),
    }
