"""Seconds from a kill -9 to the next version that is made of newer work, and beside them what Kafka alone needs.

Each kill is one of a run of real processes, whose workers compute next to nothing; its promises are checked as in the
kill matrix. A time ends with the second version behind the kill: the first may have been decided already, the second is
made of work on a version that was published behind the kill.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from bench.raw_recovery import raw_leader_s, raw_takeover_s
from bench.rebuild import rebuild_speed
from driftline.broker.embedded import EmbeddedBroker
from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.port import Start
from driftline.broker.reading import until_end
from driftline.broker.topics import Stream, topic_name
from driftline.errors import Undecodable
from driftline.launch.faults import Fault, parse_script
from driftline.schemas.codec import decode
from driftline.schemas.records import ServerState
from tests.kills.job import SERVERS, Job
from tests.kills.play import Outcome, Play

FIRST = 30
"""Version of the first kill."""

APART, APART_NODES = 40, 150
"""Versions between two kills: what was killed is back by then, also a node of the broker."""

CLOCK_S = 0.03


ELEMENTS, VERSIONS, SNAPSHOT_EVERY, USUAL_EVERY = 500_000, 420, 20, 100
"""Of the run with snapshots; each is 6 MB, master weights and two moments. The last is how often they usually come."""

REBUILDS = 5
"""Servers that rebuild a run, one after the other."""

GOODPUT_S = 120.0
"""About as long is a run with a kill a minute."""


def recovery(folder: Path, measure: str, *, kills: int) -> dict[str, float]:
    """Measure one thing on a broker of its own.

    Args:
        folder: for the broker and logs.
        measure: name of one of `MEASURES`.
        kills: about how many, where something is killed.

    Raises:
        RuntimeError: a promise was not kept.
    """
    with EmbeddedBroker(folder / "broker", nodes=3 if measure in OF_THREE else 1, prepare=False) as broker:
        return MEASURES[measure][1](broker, folder, kills)


def _leader(broker: EmbeddedBroker, folder: Path, kills: int) -> dict[str, float]:
    """Kill the node that leads the ledger, again and again."""
    script = ", ".join(f"kill leader@{FIRST + APART_NODES * index}" for index in range(kills))
    outcome, _ = _played(broker, folder, "leader", script, APART_NODES)
    found = _summary("takeover_leader_s", [gap for gap in outcome.gaps_s if gap is not None])
    return found | _summary("takeover_leader_raw_s", raw_leader_s(broker, kills))


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
    raw_s = raw_takeover_s(broker.bootstrap_servers, kills)
    return _summary("takeover_server_s", gaps) | _summary("takeover_server_raw_s", raw_s)


def _worker(broker: EmbeddedBroker, folder: Path, kills: int) -> dict[str, float]:
    """Kill a worker that comes back long after the others have gone on without it.

    Of one whose launcher reports the exit, and of one whose silence the coordinator has to notice.
    """
    script = ", ".join(f"kill worker-{1 + index % 2}@{FIRST + 3 * APART * index} for 6s" for index in range(kills))
    found = dict[str, float]()
    for key, reports_exits in (("worker_loss_s", True), ("worker_silence_s", False)):
        outcome, _ = _played(broker, folder, "worker", script, 3 * APART, same_bits=False, reports_exits=reports_exits)
        found |= _summary(key, [gap for gap in outcome.gaps_s if gap is not None])
    return found


def _snapshots(broker: EmbeddedBroker, folder: Path, _kills: int) -> dict[str, float]:
    """Train with a snapshot of every `SNAPSHOT_EVERY`-th version; return what one costs, as a share of a usual run.

    A version waits while the state is written that it would change, so the versions right behind a snapshot point take
    longer, and those further on are what they are without snapshots. Compared within one run, and pair by pair, that
    difference shows where two runs of a busy machine differ by more. A run has a snapshot every `USUAL_EVERY` versions.
    """
    outcome = _undisturbed(
        broker, folder, "snapshots", VERSIONS, elements=ELEMENTS, snapshot_every=SNAPSHOT_EVERY, pause_s=0.0
    )
    half = SNAPSHOT_EVERY // 2
    points = range(SNAPSHOT_EVERY, VERSIONS - SNAPSHOT_EVERY + 1, SNAPSHOT_EVERY)
    at = outcome.moments
    costs_s = [(at[one + half] - at[one]) - (at[one + 2 * half] - at[one + half]) for one in points]
    usual_s = statistics.median(at[one + 2 * half] - at[one + half] for one in points) * USUAL_EVERY / half
    low, _, high = statistics.quantiles(costs_s, n=4)
    cost_s = statistics.median(costs_s)
    return {
        "snapshot_share": cost_s / (usual_s + cost_s),
        "snapshot_share_p25": low / (usual_s + low),
        "snapshot_share_p75": high / (usual_s + high),
        "snapshot_ms": 1000 * cost_s,
        "snapshots": float(len(costs_s)),
    }


def _rebuild(broker: EmbeddedBroker, folder: Path, _kills: int) -> dict[str, float]:
    return rebuild_speed(broker, folder, REBUILDS)


def _goodput(broker: EmbeddedBroker, folder: Path, _kills: int) -> dict[str, float]:
    """Kill a server a minute, and in another run a worker; return the pace over that of the same run undisturbed."""
    usual = 200
    pace = usual / _undisturbed(broker, folder, "pace", usual, pause_s=CLOCK_S).training_s
    versions = [int(pace * (GOODPUT_S / 4 + 60.0 * minute)) for minute in range(int(GOODPUT_S / 60.0))]
    found = dict[str, float]()
    for key, whom in (("goodput_kill_per_minute", "coordinator"), ("goodput_worker_kill_per_minute", "worker-1")):
        script = ", ".join(f"kill {whom}@{version}" for version in versions)
        is_worker = whom != "coordinator"
        outcome, _ = _played(
            broker,
            folder,
            f"goodput-{whom}",
            script,
            int(pace * GOODPUT_S / 4),
            same_bits=not is_worker,
            reports_exits=is_worker,
        )
        found[key] = outcome.told.version / outcome.training_s / pace
    return found


def _undisturbed(
    broker: EmbeddedBroker, folder: Path, name: str, steps: int, *,
    elements: int = 4096, snapshot_every: int = 100, pause_s: float,
) -> Outcome:  # fmt: skip
    """Play a run without any fault."""
    run = f"bench-{name}-{time.time_ns():x}"
    retain = "checkpoint" if snapshot_every else "all"
    job = Job(run=run, steps=steps, elements=elements, snapshot_every=snapshot_every, retain=retain, pause_s=pause_s)
    outcome = Play(broker, job, (), folder / run, same_bits=True).run()
    _check(outcome)
    return outcome


def _check(outcome: Outcome) -> None:
    if outcome.broken:
        raise RuntimeError("\n".join(outcome.broken))


def _played(
    broker: EmbeddedBroker, folder: Path, name: str, script: str, apart: int, *,
    same_bits: bool = True, reports_exits: bool = False,
) -> tuple[Outcome, str]:  # fmt: skip
    faults: tuple[Fault, ...] = parse_script(script)
    run = f"bench-{name}-{time.time_ns():x}"
    job = Job(run=run, steps=faults[-1].version + apart, pause_s=CLOCK_S, snapshot_every=100)
    outcome = Play(broker, job, faults, folder / run, same_bits=same_bits, reports_exits=reports_exits).run()
    _check(outcome)
    return outcome, run


def _owners(bootstrap_servers: str, run: str) -> list[tuple[float, str, bool]]:
    """Return the servers' own reports: monotonic time, name, and whether they owned partitions."""
    shift_s = time.monotonic() - time.time()
    reports = []
    broker = KafkaBroker(KafkaSettings(bootstrap_servers))
    for record in until_end(broker, topic_name(run, Stream.EVENTS), 0, Start.BEGINNING):
        try:
            event = decode(record.value)
        except Undecodable:
            continue
        if isinstance(event, ServerState):
            reports.append((record.timestamp_ms / 1000 + shift_s, event.server, bool(event.partitions)))
    return reports


def _owns(reports: list[tuple[float, str, bool]], server: str, at_s: float) -> bool:
    before = [owns for time_s, name, owns in reports if name == server and time_s < at_s]
    return bool(before) and before[-1]


def _summary(key: str, seconds: list[float]) -> dict[str, float]:
    return {
        f"{key}_p50": statistics.median(seconds),
        f"{key}_min": min(seconds),
        f"{key}_max": max(seconds),
        f"{key}_kills": float(len(seconds)),
    }


Measure = Callable[[EmbeddedBroker, Path, int], dict[str, float]]
MEASURES: Final[Mapping[str, tuple[str, Measure]]] = {
    "server": ("servers are killed, {kills} owners of partitions", _server),
    "worker": ("workers are killed, {kills} times each way", _worker),
    "snapshots": ("what snapshots cost", _snapshots),
    "goodput": ("a kill a minute", _goodput),
    "rebuild": ("servers that begin again", _rebuild),
    "leader": ("of three nodes the ledger's leader is killed, {kills} times", _leader),
}
"""Name → progress line, and how to measure it."""

OF_THREE: Final = frozenset({"leader"})
"""Those that need a broker of three nodes."""
