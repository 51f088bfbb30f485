"""How fast a server that has nothing comes to hold what the ledger says, beside the same records read and dropped.

A run is trained to some versions behind its last checkpoint, and all processes are killed. Then servers start, one
after the other, each alone: the time begins when the first partition is given to it, and ends when it holds the newest
version of all of them, rebuilt from snapshots and deltas, all digests checked. The other side reads the same bytes with
the same client settings. One process each, in turns.
"""

import os
import random
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from driftline.broker.embedded import EmbeddedBroker
from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.port import Broker, EndReached, Position, Record, Start
from driftline.broker.topics import Stream, topic_name
from driftline.consumers.server.server import Server
from driftline.consumers.server.serving import SERVER_GROUPS
from driftline.ledger.entering.reading import read_ledger
from driftline.rules import choose_engine
from driftline.runtime.shell import TIMER_S, Shell
from tests.kills.job import PARTITIONS, Job
from tests.kills.play import Play

ELEMENTS: Final = 1_000_000
"""4 MB a gradient and worker; a snapshot with the moments of AdamW is 12 MB."""

SNAPSHOT_EVERY: Final = 20
VERSIONS: Final = 2 * SNAPSHOT_EVERY - 1
WAIT_S: Final = 120.0

Places = dict[tuple[str, int], Position]


@dataclass(frozen=True, slots=True)
class _Known:
    """What is to be rebuilt.

    Attributes:
        places: topic and partition → from where on it is read.
        versions: that are applied again.
    """

    places: Places
    versions: int


def rebuild_speed(embedded: EmbeddedBroker, folder: Path, rounds: int) -> dict[str, float]:
    """Return bytes and versions a second of both sides, medians of so many rounds.

    Raises:
        TimeoutError: a server does not get there.
    """
    run = f"bench-rebuild-{time.time_ns():x}"
    job = Job(run=run, steps=1_000_000, elements=ELEMENTS, snapshot_every=SNAPSHOT_EVERY, retain="all", pause_s=0.0)
    Play(embedded, job, (), folder / run, same_bits=True).leave_at(VERSIONS)
    choose_engine()  # compiling takes seconds
    broker = KafkaBroker(KafkaSettings(embedded.bootstrap_servers))
    known, size, raw_s, ours_s = _known(broker, run), 0, list[float](), list[float]()
    for number in range(rounds + 1):
        size, seconds = _read_s(broker, known.places)
        raw_s.append(seconds)
        ours_s.append(_rebuilt_s(broker, run, f"newcomer-{number}"))
    raw, ours = statistics.median(raw_s[1:]), statistics.median(ours_s[1:])  # the first one warms Kafka's caches
    return {
        "recovery_mb": size / 1e6,
        "recovery_mb_s": size / 1e6 / ours,
        "recovery_mb_s_min": size / 1e6 / max(ours_s[1:]),
        "recovery_mb_s_max": size / 1e6 / min(ours_s[1:]),
        "recovery_versions_s": known.versions / ours,
        "recovery_raw_mb_s": size / 1e6 / raw,
        "recovery_rounds": float(rounds),
    }


def _known(broker: Broker, run: str) -> _Known:
    state = read_ledger(broker, run)
    checkpoint = state.checkpoint
    if checkpoint is None or state.version <= checkpoint.version:
        raise RuntimeError(f"version {state.version} does not lie behind a checkpoint")
    places: Places = {}
    for partition in range(PARTITIONS):
        mine = [one.offset for one in checkpoint.places if one.shard % PARTITIONS == partition]
        places[topic_name(run, Stream.SNAPSHOTS), partition] = min(mine, default=Start.END)
        places[topic_name(run, Stream.DELTAS), partition] = checkpoint.floors[partition]
    return _Known(places, state.version - checkpoint.version)


def _read_s(broker: Broker, places: Places) -> tuple[int, float]:
    """Read everything to its end; return bytes and seconds."""
    size, left, reader, began_s = 0, set(places), broker.reader(), time.monotonic()
    try:
        for (topic, partition), begin in places.items():
            reader.read(topic, partition, begin)
        while left:
            found = reader.poll(WAIT_S)
            match found:
                case Record():
                    size += len(found.value or b"")
                case EndReached():
                    left.discard((found.topic, found.partition))
                case None:
                    raise TimeoutError(f"{sorted(left)} were not read within {WAIT_S:.0f} s")
        return size, time.monotonic() - began_s
    finally:
        reader.close()


def _rebuilt_s(broker: Broker, run: str, name: str) -> float:
    """Let a server come; return the seconds from its first partition to its holding everything."""
    core = Server(name, os.urandom(16), random.Random(os.urandom(32)))  # noqa: S311 - as in serving
    shell = Shell(broker, run, core, name, SERVER_GROUPS)
    began_s, given_up_s = None, time.monotonic() + WAIT_S
    try:
        while not _is_current(core):
            shell.step(TIMER_S)
            if began_s is None and core.shards.owned:
                began_s = time.monotonic()
            if time.monotonic() > given_up_s:
                raise TimeoutError(f"{name} does not hold the newest version within {WAIT_S:.0f} s")
        return time.monotonic() - (began_s or 0.0)
    finally:
        shell.close()


def _is_current(core: Server) -> bool:
    owned = core.shards.owned.values()
    return len(owned) == PARTITIONS and all(one.is_loaded and one.version == core.state.version for one in owned)
