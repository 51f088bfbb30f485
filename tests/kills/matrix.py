"""The kill matrix: who is killed, at which versions, and what must be true of the run afterwards."""

import random
from dataclasses import dataclass

from tests.kills.job import BATCH, SAMPLES, WORKERS, Job

FIRST, EVERY, POINTS = 12, 13, 10
"""Kills come at versions 12, 25, 38 …: with snapshots of every tenth, at each distance from one."""

STEPS = FIRST + EVERY * POINTS + 8

AN_EPOCH = SAMPLES // (BATCH * len(WORKERS))
"""Versions that use each sample once, if no process dies."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run of the matrix.

    Attributes:
        name: of the case, and of its run.
        script: what happens.
        nodes: of the broker.
        same_bits: the end must be that of the undisturbed run; otherwise each sample is used once an epoch.
        versions: that the undisturbed run makes, about.
    """

    name: str
    script: str
    nodes: int = 1
    same_bits: bool = True
    versions: int = STEPS

    def job(self, run: str) -> Job:
        """Return what is trained: by versions where bits are compared, by epochs where samples are counted."""
        return Job(run=run, steps=self.versions) if self.same_bits else Job(run=run, epochs=self.versions // AN_EPOCH)


def _at_each(*templates: str) -> str:
    """Let faults happen at every point, in turn where several templates are given one after the other."""
    versions = range(FIRST, FIRST + EVERY * POINTS, EVERY)
    return ", ".join(
        part.format(version) for index, version in enumerate(versions) for part in [templates[index % len(templates)]]
    )


RANDOM_RUNS = 20
"""Of `POINTS` kills each: two hundred in a row."""

SERVING = ("server-1", "server-2", "server-3", "coordinator", "servers", "brokers")
WORKING = ("worker-1", "worker-2", "workers", "everything")


def _random(number: int) -> Case:
    """Kill at random: in every other run only those whose deaths change no bit, in the others workers as well."""
    rng = random.Random(number)  # noqa: S311 - the same kills in each call
    same_bits = number % 2 == 1
    targets = SERVING if same_bits else (*SERVING, *WORKING)
    kills = [
        f"kill {rng.choice(targets)}@{FIRST + EVERY * index + rng.randrange(EVERY)} for {rng.randrange(100, 2500)}ms"
        for index in range(POINTS)
    ]
    return Case(f"random-{number:02}", ", ".join(kills), same_bits=same_bits, versions=STEPS + EVERY)


MATRIX = (
    Case("undisturbed", ""),
    Case("server", _at_each("kill server-1@{0}", "kill server-2@{0}", "kill server-3@{0}")),
    Case("coordinator", _at_each("kill coordinator@{0}")),
    Case("servers", _at_each("kill all servers@{0}")),
    Case("paused", _at_each("pause coordinator@{0} for 2s", "pause server-1@{0} for 2s", "pause server-2@{0} for 2s")),
    Case("broker", _at_each("kill brokers@{0}")),
    Case("leader", _at_each("kill leader@{0}"), nodes=3),
    Case("leader-and-controller", _at_each("kill leader@{0}, kill controller@{0}"), nodes=3),
    Case("servers-and-brokers", _at_each("kill servers@{0}, kill brokers@{0}"), nodes=3),
    Case("workers", _at_each("kill worker-1@{0}", "kill worker-2@{0}", "kill workers@{0}"), same_bits=False),
    Case("everything", _at_each("kill everything@{0}"), same_bits=False),
    *(_random(number) for number in range(1, RANDOM_RUNS + 1)),
)
"""All of it; each but the first is killed at `POINTS` points."""

SAMPLE = (
    Case("sample-bits", "kill server-1@12, kill coordinator@25, kill servers@38, kill brokers@51", versions=65),
    Case("sample-samples", "kill worker-1@12, kill everything@25", same_bits=False, versions=45),
)
"""What fits into the test command."""
