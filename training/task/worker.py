"""A worker process of a task: compute gradients as the run allows, until it ends."""

import logging
import threading

from driftline.broker.port import Broker
from driftline.broker.topics import check_run_name
from driftline.config.freezing import adopted_settings
from driftline.config.run_settings import RunSettings
from driftline.ledger.entering.reading import read_config
from driftline.ledger.follower import Model
from driftline.producers.deltas import NoGradient
from driftline.producers.proposal import Offer
from driftline.schemas.effects import Finish
from driftline.schemas.run.config import RunConfig
from driftline.telemetry.metrics import WatchMetrics, ignore_metrics
from driftline.training.task import Task
from driftline.training.task.computing import Computing
from driftline.training.worker.participation import Participation
from driftline.training.worker.topics import RunTopics

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

    A worker that was away for too long, for example because its machine slept, is removed from the run and joins again.

    Args:
        broker: where the run's topics are; those that are missing are created.
        settings: the run as this worker would start it. An existing run must be the same in what was chosen, and
            decides the rest.
        name: of this worker, unique in the run.
        task: what is trained.
        stop: set it to leave the run in an orderly way.
        patience_s: seconds to wait for the next clock before giving up.
        mark: with which its incarnations begin, so that the launcher of the process recognises them.
        watch: receives the source of the worker's metrics, once a session.

    Raises:
        ConfigError: lists everything about model, optimizer and settings that cannot be trained.
        WaitTimeout: nothing moved for ``patience_s``; says which workers it waited for.
        BrokerError: Kafka refuses to work with us.
        RunRefused: something was chosen that the run has otherwise.
    """
    check_run_name(settings.run)
    existing = read_config(broker, settings.run)
    topics = RunTopics(broker, settings if existing is None else adopted_settings(settings, existing))
    offers = _Offers(task, topics.settings)
    topics.create()
    member = Participation(broker, settings.run, name, offers, timeout_s=patience_s, stop=stop, mark=mark, watch=watch)
    try:
        while (model := member.next_model()) is not None:
            _spend_one_clock(member, offers.computing, model)
    finally:
        member.close("stopped")
    return member.finish or Finish("stopped")


def _spend_one_clock(member: Participation, computing: Computing, model: Model) -> None:
    clock, leased = member.ask(lambda session: (session.clock + 1, session.samples))
    found = computing.gradient(model, worker=member.worker, start=member.starts_before, clock=clock, leased=leased)
    if isinstance(found, NoGradient) and found.samples:
        log.warning("clock %d is skipped: %s", clock, found.reason)
    member.spend_clock(model, found)


class _Offers:
    """Makes the offers of one task.

    Attributes:
        computing: with the settings of the last offer.
    """

    def __init__(self, task: Task, settings: RunSettings) -> None:
        self._task, self._settings = task, settings
        self.computing = Computing(task, settings)

    def __call__(self, existing: RunConfig | None) -> Offer:
        """Return what to start the run with, and what it must fit; ``existing`` are the settings of a run that exists.

        Raises:
            RunRefused: something was chosen that the run has otherwise; lists all of it.
        """
        settings = self._settings if existing is None else adopted_settings(self._settings, existing)
        if settings != self._settings:
            self._settings, self.computing = settings, Computing(self._task, settings)
        return self.computing.offer
