"""A model of eighteen numbers for runs that a person can read: a matrix and a bias, each pulled towards some point."""

import zlib

import numpy as np

from driftline.ledger.follower import Model
from driftline.producers.deltas import Gradient
from driftline.producers.proposal import Offer
from driftline.schemas.model.layout import Layout, Segment
from driftline.schemas.run.config import RuleConfig, RunConfig
from tests.support.still_run import StillRun

PARTITIONS = 2
LAYOUT = Layout(
    (
        Segment("weight", (), (5, 3), "float32", "parameter", 0, 0),
        Segment("bias", (), (3,), "float32", "parameter", 0, 15),
    ),
    PARTITIONS,
)


def small_run(
    name: str = "small", *, steps: int = 3, servers: int = 2, snapshot_every: int = 100, retain: str = "all"
) -> StillRun:
    """Return a run of two workers that has not begun."""
    config = RunConfig(
        name=name,
        workers=2,
        steps=steps,
        partitions=PARTITIONS,
        rule=RuleConfig(name="sgd", groups=({"lr": 0.5},)),
        snapshot_every=snapshot_every,
        retain=retain,
    )
    masters = np.linspace(-1.0, 1.0, LAYOUT.elements, dtype=np.float32)
    offer = Offer(config=config, layout=LAYOUT, masters=masters)
    return StillRun(offer, ("ada", "bob"), _gradient, _measure, servers=servers)


def _gradient(worker: str, model: Model, cursor: int) -> Gradient:
    """Return the gradient of half the squared distance to a point that depends on worker and batch."""
    rng = np.random.default_rng([zlib.crc32(worker.encode()), cursor])
    pull = np.subtract(model.flat, rng.integers(-4, 5, LAYOUT.elements).astype(np.float32))
    loss = float(np.square(pull.astype(np.float64)).sum() / 2)
    return Gradient(
        flat=pull, presence=[True, True], weight=32.0 if worker == "ada" else 16.0, loss=loss, cursor=cursor + 1
    )


def _measure(model: Model) -> dict[str, float]:
    return {"distance": float(np.abs(model.flat.astype(np.float64)).sum())}
