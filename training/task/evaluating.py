"""An evaluator: measure published versions on held-out data and report them to the run."""

import logging
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from driftline.broker.port import Broker
from driftline.errors import IntegrityError
from driftline.ledger.entering.checkpoint import enter_ledger
from driftline.ledger.follower import Model
from driftline.ledger.run_state import RunState
from driftline.runtime.running import Running
from driftline.schemas.digests import model_digest, shard_digest
from driftline.schemas.effects import Finish
from driftline.schemas.model.layout import Layout
from driftline.telemetry.metrics import WatchMetrics, ignore_metrics
from driftline.training.task.evaluator import EvaluatorSession
from driftline.training.worker.metrics import member_samples

if TYPE_CHECKING:
    from driftline.training.task import Task

log = logging.getLogger(__name__)

PAUSE_S = 0.1
"""Seconds between two looks for a new version."""

EVERY_S = 1.0
"""Seconds between two measurements, but for the final version, which is always measured."""

SAY_S = 5.0
"""Seconds between two lines that say what is waited for, at first."""


def evaluate_run(
    broker: Broker,
    run: str,
    name: str,
    load_task: "Callable[[], Task]",
    *,
    stop: threading.Event,
    watch: Callable[[RunState], None] | None = None,
    watch_metrics: WatchMetrics = ignore_metrics,
) -> tuple[Finish, RunState]:
    """Follow a run until it ends or ``stop`` is set; measure versions as they come.

    Args:
        broker: where the run's topics are.
        run: the run's name.
        name: of this evaluator, unique in the run.
        load_task: makes the task whose metrics are asked for. The run learns of this evaluator before it is called,
            because it imports torch, which may take longer than a whole run; one that knows waits for the verdict.
        stop: set it to end.
        watch: called about ten times a second with the fold of the ledger, under the session's lock.
        watch_metrics: receives the source of the evaluator's metrics.

    Returns:
        How it ended, and the fold of the ledger with all evaluations in it.

    Raises:
        BrokerError: Kafka refuses to work with us, or a topic of the run is gone.
        RunRefused: the run was deleted, and another has begun under its name.
        IntegrityError: parameters that were measured are not those that the ledger names.
    """
    session = EvaluatorSession(name, os.urandom(16), enter_ledger(broker, run).state())
    with Running(broker, run, session, name) as running:
        watch_metrics(partial(running.samples, partial(member_samples, session)))
        measuring, waiting = _Measuring(load_task()), _Waiting(running, session)
        while running.finished is None and not stop.is_set():
            found = running.query(lambda: measuring.next_model(session, watch))
            if found is None:
                waiting.look(time.monotonic())
                stop.wait(PAUSE_S)
                continue
            metrics = measuring.measure(session, found)
            running.perform(partial(session.report, found.version, metrics))
            waiting = _Waiting(running, session)
        running.check()
    measuring.check_digests(session.state)
    return running.finished or Finish("stopped"), session.state


class _Waiting:
    """What an evaluator looks after while there is nothing to measure."""

    def __init__(self, running: Running, session: EvaluatorSession) -> None:
        self._running, self._session = running, session
        self._since_s = self._said_s = time.monotonic()

    def look(self, now_s: float) -> None:
        """Say what is waited for, if that takes long.

        Raises:
            BrokerError: the session has failed.
            RunRefused: the run was deleted, and another has begun under its name.
        """
        self._running.check()
        if now_s - self._said_s > max(SAY_S, (self._said_s - self._since_s) / 2):  # less and less often
            self._said_s = now_s
            log.info("waiting for %s", self._running.query(self._session.waiting_for))
        self._running.check_same_run()


class _Measuring:
    """A model to load versions into, and the digests of what was loaded."""

    def __init__(self, task: "Task") -> None:
        from driftline.training.task.parts import build_model, read_data  # noqa: PLC0415 - torch takes seconds

        task.prepare()
        self._task = task
        self._model = build_model(task, 0)
        self._data = read_data(task, "test")
        self._digests: dict[int, bytes] = {}
        self._next_s = 0.0

    def next_model(self, session: EvaluatorSession, watch: Callable[[RunState], None] | None) -> Model | None:
        """Return the version to measure now, if any; under the session's lock."""
        if watch is not None:
            watch(session.state)
        found = session.to_measure()
        if found is None or session.finished is not None:
            return None
        final = session.state.is_finished and found.version == session.state.version
        return found if final or time.monotonic() >= self._next_s else None

    def measure(self, session: EvaluatorSession, found: Model) -> dict[str, float]:
        """Measure a version, and keep the digest of the parameters that it was measured on."""
        layout = session.state.layout
        self._digests[found.version] = parameters_digest(layout, found)
        from driftline.training.task.evaluation import evaluate  # noqa: PLC0415 - torch takes seconds

        metrics = evaluate(self._task, self._model, layout, found.flat, self._data)
        self._next_s = time.monotonic() + EVERY_S
        return metrics

    def check_digests(self, state: RunState) -> None:
        """Hold what was measured against the digests in the ledger.

        Raises:
            IntegrityError: parameters that were read are not those that the ledger names.
        """
        for version, digest in self._digests.items():
            recorded = state.states.get(version)
            if recorded is not None and recorded.parameters != digest:
                raise IntegrityError(
                    f"parameters of version {version} were read with digest {digest.hex()}, "
                    f"the ledger says {recorded.parameters.hex()}"
                )


def parameters_digest(layout: Layout, model: Model) -> bytes:
    """Return the digest of all parameters, as the ledger records it."""
    ranges = (layout.shard_range(shard) for shard in range(layout.shard_count))
    return model_digest([shard_digest(model.flat[start:stop], {})[1] for start, stop in ranges])
