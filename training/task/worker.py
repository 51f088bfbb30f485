"""A worker process: compute gradients as the session allows, until the run ends."""

import logging
import os
import threading
from collections.abc import Iterable
from functools import partial

from driftline.broker.port import Broker
from driftline.broker.topics import check_run_name
from driftline.config.freezing import adopted_settings
from driftline.config.run_settings import RunSettings
from driftline.ledger.entering.checkpoint import enter_ledger
from driftline.ledger.entering.reading import read_config
from driftline.ledger.entering.same_run import check_same_run
from driftline.ledger.follower import Model
from driftline.producers.deltas import Gradient
from driftline.producers.member import new_incarnation
from driftline.producers.session import WorkerSession
from driftline.runtime.running import Running
from driftline.schemas.effects import Effect, Finish
from driftline.telemetry.metrics import WatchMetrics, ignore_metrics
from driftline.training.task import Task
from driftline.training.task.computing import Computing, Skipped
from driftline.training.worker.metrics import worker_samples
from driftline.training.worker.preparing import prepare_topics
from driftline.training.worker.wait_share import WaitShare

log = logging.getLogger(__name__)


def work(
    broker: Broker,
    settings: RunSettings,
    name: str,
    task: Task,
    *,
    stop: threading.Event,
    patience_s: float = 600.0,
    mark: bytes = b"",
    watch: WatchMetrics = ignore_metrics,
) -> Finish:
    """Train in this process until the run ends or ``stop`` is set.

    A worker that was away for too long, because its machine slept, say, was removed from the run; it joins again.

    Args:
        broker: where the run's topics are; they are created if they are missing.
        settings: the run as this worker would start it. An existing run must be the same in what was chosen, and
            decides the rest.
        name: of this worker, unique in the run.
        task: what is trained.
        stop: set it to leave the run in an orderly way.
        patience_s: seconds to wait for the next clock before giving up.
        mark: with which its incarnations begin, so that whoever started the process knows them.
        watch: receives the source of the worker's metrics, for each session anew.

    Raises:
        ConfigError: lists everything about model, optimizer and settings that cannot be trained.
        WaitTimeout: nothing moved for ``patience_s``; says for whom.
        BrokerError: Kafka refuses to work with us.
        RunRefused: something was chosen that the run has otherwise.
    """
    check_run_name(settings.run)
    existing = read_config(broker, settings.run)
    if existing is not None:
        settings = adopted_settings(settings, existing)
    computing = Computing(task, settings)
    prepare_topics(broker, settings)
    state = enter_ledger(broker, settings.run).state()
    session = WorkerSession(name, new_incarnation(mark), computing.offer, os.urandom(16), state=state)
    while True:
        with Running(broker, settings.run, session, name) as running:
            watch(partial(running.samples, partial(worker_samples, session)))
            finish = _Worker(running, session, computing, stop, patience_s).run()
            if finish is None:
                running.telling(lambda: session.leave("stopped"))  # noqa: B023 - called at once
        if finish is None or not session.may_return:
            return finish or Finish("stopped")
        if session.state.has_begun:
            check_same_run(broker, settings.run, session.state.start)
        log.warning("%s; it joins again", finish.failure)
        state = enter_ledger(broker, settings.run).state()
        session = WorkerSession(
            name, new_incarnation(mark), computing.offer, os.urandom(16), gives_way=True, state=state
        )


class _Worker:
    """The loop of one worker: wait for a clock, compute, contribute."""

    def __init__(
        self,
        running: Running,
        session: WorkerSession,
        computing: Computing,
        stop: threading.Event,
        patience_s: float,
    ) -> None:
        self._running = running
        self._session = session
        self._computing = computing
        self._stop = stop
        self._patience_s = patience_s
        self._waiting = WaitShare()
        self._start: int | None = None

    def run(self) -> Finish | None:
        """Work until the session finishes; None when ``stop`` was set first."""
        while (model := self._next_model()) is not None:
            self._one_clock(model)
            self._session.waiting_share = self._waiting.share
        return self._running.finished

    def _next_model(self) -> Model | None:
        with self._waiting:
            return self._running.asking(
                self._session.may_start, stop=self._stop, timeout_s=self._patience_s, whom=self._session.waiting_for
            )

    def _one_clock(self, model: Model) -> None:
        session = self._session
        if self._start is None:
            self._start = self._starts_before()
        leased = self._running.glance(lambda: session.samples)
        found = self._computing.gradient(
            model, worker=session.name, start=self._start, clock=session.clock + 1, leased=leased
        )
        if isinstance(found, Skipped) and found.samples:
            log.warning("clock %d is skipped: %s", session.clock + 1, found.reason)
        self._running.telling(lambda: self._spend(model, found))

    def _spend(self, model: Model, found: Gradient | Skipped) -> Iterable[Effect]:
        if self._session.finished is not None or self._session.group is None:
            return []  # removed, or over, while we computed
        if isinstance(found, Skipped):
            return self._session.skip(model, self._computing.batches, found.reason, found.samples)
        return self._session.contribute(model, found)

    def _starts_before(self) -> int:
        """How many earlier starts of this worker the ledger holds."""
        starts = [start for worker, start in self._session.state.joined if worker == self._session.name]
        return starts.index(self._session.incarnation)
