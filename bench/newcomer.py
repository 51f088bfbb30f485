"""What a newcomer reads of a long run, and how long that takes: from a checkpoint, and from the ledger's beginning.

The run is played in memory, and its log copied to a real Kafka, offset by offset. Then, in turns, a worker comes until
it holds the newest version, and a server that owns nothing until it has read the ledger to its end.
"""

import argparse
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from driftline.broker.embedded import EmbeddedBroker
from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.port import Broker, Record, Start
from driftline.broker.topics import Stream, run_topics, topic_name
from driftline.consumers.server.server import Server
from driftline.ledger.entering.checkpoint import enter_ledger
from driftline.ledger.entering.entry import Search
from driftline.producers.session import WorkerSession
from driftline.runtime.shell import Core, Shell
from driftline.runtime.traffic import READ
from tests.support.small_model import PARTITIONS, small_run
from tests.support.still_run import StillRun

RUN: Final = "small"
A_PLAY: Final = 500
"""Versions that are played at a time."""

STEP_S = 0.01
LONGEST_S = 300.0
STREAMS = (Stream.LEDGER, Stream.PARAMETERS, Stream.SNAPSHOTS, Stream.DELTAS, Stream.EVENTS)


@dataclass(frozen=True, slots=True)
class Came:
    """How a newcomer came: ledger records and bytes that it read, and seconds."""

    records: int
    bytes: int
    seconds: float


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.newcomer", description=__doc__)
    parser.add_argument("--versions", type=int, default=3050, help="of the run that newcomers come to (default 3050)")
    parser.add_argument("--rounds", type=int, default=5, help="newcomers of each kind (default 5)")
    arguments = parser.parse_args()
    run = small_run(RUN, steps=0, snapshot_every=100)
    print(f"playing {arguments.versions:,} versions in memory …", flush=True)
    for version in range(0, arguments.versions, A_PLAY):
        run.play(until_version=min(version + A_PLAY, arguments.versions))
    with tempfile.TemporaryDirectory(prefix="driftline-newcomer-") as folder, EmbeddedBroker(Path(folder)) as embedded:
        broker = KafkaBroker(KafkaSettings(embedded.bootstrap_servers))
        records, size = _copy(run, broker)
        print(f"the ledger has {records:,} records, {size:,} bytes", flush=True)
        for what, come in (("a worker", _worker), ("a server", _server)):
            came: dict[bool, list[Came]] = {True: [], False: []}
            for _ in range(arguments.rounds):
                for whole, found in came.items():
                    found.append(_came(broker, come, run, whole=whole))
            _say(what, came[True], "from the beginning")
            _say(what, came[False], "from a checkpoint")


def _say(what: str, came: list[Came], whence: str) -> None:
    seconds = sorted(one.seconds for one in came)
    print(
        f"{what} {whence}: {came[0].records:,} ledger records, {came[0].bytes:,} bytes, median "
        f"{statistics.median(seconds):.3f} s ({seconds[0]:.3f} to {seconds[-1]:.3f})",
        flush=True,
    )


def _copy(run: StillRun, broker: KafkaBroker) -> tuple[int, int]:
    """Write the log again; return how many records its ledger has, and their bytes."""
    with closing(broker.admin()) as admin:
        admin.create(run_topics(RUN, PARTITIONS))
    found: tuple[int, int] = (0, 0)
    with closing(broker.producer()) as producer:
        for stream in STREAMS:
            for partition in range(1 if stream in (Stream.LEDGER, Stream.EVENTS) else PARTITIONS):
                values = _values(run.broker, stream, partition)
                for one in values:
                    producer.send(one.topic, partition, one.value, key=one.key)
                if stream is Stream.LEDGER:
                    found = len(values), sum(len(one.value or b"") for one in values)
    return found


def _values(broker: Broker, stream: Stream, partition: int) -> list[Record]:
    with closing(broker.reader()) as reader:
        reader.read(topic_name(RUN, stream), partition, Start.BEGINNING)
        found: list[Record] = []
        while (one := reader.poll(0.0)) is not None:
            found += [one] if isinstance(one, Record) else []
        return found


Come = Callable[[Search, StillRun], tuple[Core, Callable[[], bool]]]


def _worker(search: Search, run: StillRun) -> tuple[Core, Callable[[], bool]]:
    core = WorkerSession("late", os.urandom(16), run.workers["ada"].offer, os.urandom(16), state=search.state())
    return core, lambda: core.reader.follower.newest is not None and core.reader.is_caught_up


def _server(search: Search, run: StillRun) -> tuple[Core, Callable[[], bool]]:
    core = Server("late", os.urandom(16), random.Random(1), search.state())  # noqa: S311 - back-off
    end = run.evaluator.state.next_offset
    return core, lambda: core.state.next_offset >= end


def _came(broker: KafkaBroker, come: Come, run: StillRun, *, whole: bool) -> Came:
    began_s = time.monotonic()
    search = Search(None, 0, 0, ()) if whole else enter_ledger(broker, RUN)
    core, is_there = come(search, run)
    shell = Shell(broker, RUN, core, "late")
    try:
        while not is_there():
            if time.monotonic() - began_s > LONGEST_S:
                raise TimeoutError(f"it is not there after {LONGEST_S:.0f} s")
            shell.step(STEP_S)
        taken_s = time.monotonic() - began_s
        traffic = {
            one.metric.name: int(one.value)
            for one in shell.samples()
            if one.labels == {"stream": Stream.LEDGER.value, "direction": READ} and isinstance(one.value, int | float)
        }
    finally:
        shell.close()
    return Came(
        traffic["driftline_records_total"] + search.looked_at,
        traffic["driftline_bytes_total"] + search.looked_at_bytes,
        taken_s,
    )


if __name__ == "__main__":
    main()
