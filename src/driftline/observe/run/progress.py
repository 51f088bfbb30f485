"""How far a run is, small enough to be made ten times a second."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from driftline.ledger.run_state import RunState
from driftline.observe.run.disk_use import disk_use, most_bytes
from driftline.observe.run.status import wire_bytes
from driftline.schemas.model.layout import Layout
from driftline.schemas.run.config import RunConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One look at a run in training.

    Attributes:
        phase: what it is doing, in a word or two; empty while versions are made.
        epoch: how many epochs are used up, of ``epochs`` that the run lasts.
        loss: of the training batches of the newest version; None before the first.
        metrics: as measured last.
        staleness: the largest so far, in versions.
        waiting_share: mean share of their time that workers spend waiting; None while unknown.
        wire_bytes: payload written so far.
        members: worker → incarnation of those that the ledger has.
        disk: what the run will take of Kafka's disks, in words; empty before it starts.
        disk_bytes: how much that is at most; 0 if nobody can tell.
    """

    run: str
    phase: str
    version: int = 0
    steps: int = 0
    epoch: int = 0
    epochs: int = 0
    loss: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    workers: int = 0
    staleness: int = 0
    waiting_share: float | None = None
    wire_bytes: int = 0
    members: Mapping[str, bytes] = field(default_factory=dict)
    disk: str = ""
    disk_bytes: int = 0


class Watching:
    """Makes `Progress` of a fold that moves on. `look` is called on the thread that owns the fold."""

    def __init__(self, run: str) -> None:
        self.newest = Progress(run=run, phase="starting")
        self.run_uuid: bytes | None = None
        self._run = run

    def look(self, state: RunState) -> None:
        """Take a look."""
        if state.start is None or state.config is None:
            self.newest = Progress(run=self._run, phase="waiting for the run to start")
            return
        self.run_uuid = state.start.run
        measured = max(state.evaluations, default=None)
        self.newest = Progress(
            run=self._run,
            phase=_phase(state, state.config.workers),
            version=state.version,
            steps=state.config.steps,
            epoch=state.leases.epoch,
            epochs=state.config.data.epochs,
            loss=state.loss if math.isfinite(state.loss) else None,
            metrics={} if measured is None else dict(state.evaluations[measured].metrics),
            workers=len(state.groups),
            staleness=max(state.totals.staleness, default=0),
            wire_bytes=wire_bytes(state),
            members={group.worker: group.incarnation for group in state.groups.values()},
            **self._disk(state.config, state.layout),
        )

    def _disk(self, config: RunConfig, layout: Layout | None) -> dict[str, Any]:
        """Compute it once: it follows from what never changes."""
        if not self.newest.disk and layout is not None:
            return {"disk": disk_use(config, layout), "disk_bytes": most_bytes(config, layout)}
        return {"disk": self.newest.disk, "disk_bytes": self.newest.disk_bytes}


def _phase(state: RunState, workers: int) -> str:
    if state.ended is not None:
        return "ended"
    if not state.first_names:
        return f"waiting for {workers} workers to be ready"
    return "" if state.version else "computing the first version"
