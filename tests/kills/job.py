"""What a run of the kill matrix trains, as its processes are told."""

import json
from dataclasses import asdict, dataclass

from driftline.schemas.run.config import RuleConfig, RunConfig
from driftline.schemas.run.data import DataConfig
from tests.simulation.run.quadratic import Problem, problem

SAMPLES = 240
BATCH = 8
WORKERS = ("worker-1", "worker-2")
SERVERS = ("server-1", "server-2", "server-3")
"""One more than there are partitions: a standby."""
PARTITIONS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run.

    Attributes:
        run: its name.
        steps: it ends at this version; 0: when each sample was used ``epochs`` times.
        epochs: see there.
        elements: of the model.
        snapshot_every: versions between two snapshots.
        retain: ``all`` or ``checkpoint``.
        pause_s: seconds that each clock of a worker takes.
        seed: of everything.
    """

    run: str
    steps: int = 0
    epochs: int = 0
    elements: int = 4096
    snapshot_every: int = 10
    retain: str = "checkpoint"
    pause_s: float = 0.02
    seed: int = 0

    def to_json(self) -> str:
        """Write it for the command line of a process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Job":
        """Read it there."""
        return cls(**json.loads(text))

    def problem(self) -> Problem:
        """Return what is trained: a quadratic by AdamW in lock-step, its samples leased."""
        config = RunConfig(
            name=self.run,
            workers=len(WORKERS),
            steps=self.steps,
            seed=self.seed,
            partitions=PARTITIONS,
            rule=RuleConfig(name="adamw", groups=({"lr": 0.01},)),
            data=DataConfig(samples=SAMPLES, batch_size=BATCH, block=2 * BATCH, epochs=self.epochs),
            snapshot_every=self.snapshot_every,
            retain=self.retain,
        )
        return problem(config, self.elements)
