"""How far a run is, cheap enough to compute ten times a second."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from driftline.ledger.run_state import RunState
from driftline.observe.records.values import finite
from driftline.observe.run.disk_use import disk_use, most_bytes
from driftline.observe.run.status import wire_bytes
from driftline.schemas.model.layout import Layout
from driftline.schemas.run.config import RunConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of a run at one moment.

    Attributes:
        phase: what it is doing, in a word or two; empty while it makes versions.
        epoch: how many epochs are used up, of the run's ``epochs``.
        loss: of the training batches of the newest version; None before the first.
        metrics: of the newest evaluation.
        staleness: the largest so far, in versions.
        waiting_share: mean share of their time that workers spend waiting; None while unknown.
        wire_bytes: payload written so far.
        members: worker → incarnation, as the ledger has them.
        disk: use of Kafka's disks, in words; empty before the run starts.
        disk_bytes: the most bytes that the run will use there; 0 if that is not known.
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


class ProgressTracker:
    """Derives `Progress` from a fold of the ledger. The thread that owns the fold calls `update`."""

    def __init__(self, run: str) -> None:
        self.newest = Progress(run=run, phase="starting")
        self.run_uuid: bytes | None = None
        self._run = run

    def update(self, state: RunState) -> None:
        """Derive the progress of now."""
        if not state.has_begun:
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
            loss=finite(state.loss),
            metrics={} if measured is None else dict(state.evaluations[measured].metrics),
            workers=len(state.groups),
            staleness=max(state.totals.staleness, default=0),
            wire_bytes=wire_bytes(state),
            members={group.worker: group.incarnation for group in state.groups.values()},
            **self._disk(state.config, state.layout),
        )

    def _disk(self, config: RunConfig, layout: Layout) -> dict[str, Any]:
        """Compute it once: settings and layout never change."""
        if not self.newest.disk:
            return {"disk": disk_use(config, layout), "disk_bytes": most_bytes(config, layout)}
        return {"disk": self.newest.disk, "disk_bytes": self.newest.disk_bytes}


def _phase(state: RunState, workers: int) -> str:
    if state.ended is not None:
        return "ended"
    if not state.first_names:
        return f"waiting for {workers} workers to be ready"
    return "" if state.version else "computing the first version"
