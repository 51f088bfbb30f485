"""Bounded staleness between processes: the bounds hold, and are reached, when one worker is five times slower."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.port import EndReached, Record, Start
from driftline.broker.topics import Stream, topic_name
from driftline.schemas.codec import decode
from driftline.schemas.records import Version
from tests.support.commands import Commands

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

BOUND = 2
STEPS = 30
PAUSES_S = {"fast": 0.02, "slow": 0.1}

SLOWED = """
import time
from dataclasses import dataclass

from driftline.training.task.builtin.digits import Digits


@dataclass(kw_only=True)
class Slowed(Digits):
    pause_s: float = 0.0

    def loss(self, model, batch):
        time.sleep(self.pause_s)
        return super().loss(model, batch)
"""


@pytest.fixture
def commands(tmp_path: Path, kafka_bootstrap: str) -> Iterator[Commands]:
    """Nothing that a test starts outlives it."""
    commands = Commands(tmp_path, kafka_bootstrap)
    yield commands
    commands.end()


def test_the_bounds_of_ssp_hold_and_are_reached(
    commands: Commands, unique_name: Callable[[str], str], kafka_bootstrap: str
) -> None:
    """The fast worker runs ahead as far as it may, and waits there; no work is later than 2 s."""
    run = unique_name("bounds")
    task = commands.folder / "slowed.py"
    task.write_text(SLOWED)
    server = commands.start("server", run)
    words = ["worker", f"{task}:Slowed", "--run", run, "--workers", "2", "--steps", str(STEPS)]
    words += ["--mode", "ssp", "--staleness", str(BOUND)]
    workers = [
        commands.start(*words, "--name", name, "--set", f"pause_s={pause_s}") for name, pause_s in PAUSES_S.items()
    ]
    assert [worker.code(150) for worker in workers] == [0, 0], [worker.said() for worker in workers]
    assert server.code(30) == 0, server.said()
    seen = json.loads(commands.run("status", run, "--json").stdout)
    assert (seen["version"], seen["rejected"]) == (STEPS, 0)
    assert BOUND <= max(map(int, seen["staleness"])) <= 2 * BOUND
    assert all(worker["waiting_share"] > 0 for worker in seen["workers"])
    leads = list(lead_by_version(kafka_bootstrap, run))
    assert max(leads) in {BOUND, BOUND + 1}
    assert leads.count(max(leads)) > STEPS // 4, "the fast worker stood at the bound again and again"


def lead_by_version(bootstrap_servers: str, run: str) -> Iterator[int]:
    """Yield by how many clocks the fast worker is ahead of the slow one in the ledger, after every version."""
    settled: dict[tuple[int, int], int] = {}
    reader = KafkaBroker(KafkaSettings(bootstrap_servers)).reader()
    try:
        reader.read(topic_name(run, Stream.LEDGER), 0, Start.BEGINNING)
        while not isinstance(found := reader.poll(1.0), EndReached):
            record = decode(found.value) if isinstance(found, Record) else None
            if isinstance(record, Version):
                for use in record.uses:
                    settled[use.group.offset, use.group.index] = use.clock
                yield max(settled.values()) - min(settled.values()) if len(settled) == len(PAUSES_S) else 0
    finally:
        reader.close()
