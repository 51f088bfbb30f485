"""A script's membership of a run: it joins, contributes, waits for the next version, and joins again if it must.

The script computes; Kafka sits on a thread of its own (`Running`). Everything here is called on the script's thread.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from driftline.broker.port import Broker
from driftline.errors import DriftlineError, WaitTimeout
from driftline.ledger.entering.checkpoint import enter_ledger
from driftline.ledger.entering.reading import read_present
from driftline.ledger.entering.same_run import check_same_run
from driftline.ledger.follower import Model
from driftline.ledger.run_state import RunState
from driftline.producers.deltas import Gradient
from driftline.producers.proposal import Offer
from driftline.producers.session import WorkerSession
from driftline.runtime.outcome import check_finish
from driftline.runtime.running import Running
from driftline.schemas.effects import Effect, Finish
from driftline.schemas.records.sample_range import Samples
from driftline.telemetry.metrics import WatchMetrics, ignore_metrics
from driftline.training.worker.drawing import Drawing, Found
from driftline.training.worker.metrics import worker_samples
from driftline.training.worker.newest import read_newest
from driftline.training.worker.wait_share import WaitShare

log = logging.getLogger(__name__)

T = TypeVar("T")

MakeOffer = Callable[[RunState], Offer]
"""What a script would start the run with, and what the run must fit, given what the ledger holds already."""


@dataclass(frozen=True, slots=True)
class Left:
    """What a worker leaves behind.

    Attributes:
        undelivered: records that Kafka did not acknowledge.
        unsettled: contributions that the ledger had not decided on.
    """

    undelivered: int
    unsettled: int

    def __str__(self) -> str:
        """Name what there is, and nothing that there is not; empty if nothing is left."""
        parts = (
            (self.undelivered, "records that Kafka has not acknowledged"),
            (self.unsettled, "contributions that the ledger has not decided on"),
        )
        return " and ".join(f"{count} {words}" for count, words in parts if count)


class Participation:
    """One worker of a run, from `join` to `close`.

    Args:
        broker: where the run's topics are.
        run: the run's name.
        worker: its name.
        make_offer: called at the start, and again if another worker's run turns out to have been first.
        timeout_s: seconds to wait for others before giving up, each time.
        watch: receives the source of the worker's metrics, each time that it joins.
    """

    def __init__(
        self,
        broker: Broker,
        run: str,
        worker: str,
        make_offer: MakeOffer,
        timeout_s: float,
        watch: WatchMetrics = ignore_metrics,
    ) -> None:
        self.worker = worker
        self._broker = broker
        self._run = run
        self._make_offer = make_offer
        self._timeout_s = timeout_s
        self._watch = watch
        self._stop = threading.Event()
        self._waiting = WaitShare()
        self._knew_run = False
        self._undecided = 0
        self._session, self._running = self._begin(gives_way=False)

    def _begin(self, *, gives_way: bool) -> tuple[WorkerSession, Running]:
        search = enter_ledger(self._broker, self._run)
        state = read_present(self._broker, self._run, search)
        self._knew_run = state.has_begun
        if state.worker_group(self.worker) is not None and not gives_way:
            log.warning("run %s has a member called %s already; this process takes its place", self._run, self.worker)
        offer = self._make_offer(state)
        session = WorkerSession(
            self.worker, os.urandom(16), offer, os.urandom(16), gives_way=gives_way, state=search.state()
        )
        running = Running(self._broker, self._run, session, self.worker)
        self._watch(partial(running.samples, partial(worker_samples, session)))
        return session, running.__enter__()

    # -- questions ---------------------------------------------------------------------------------------------------

    def look(self) -> RunState:
        """Return the fold of the ledger. It moves on: read single values only."""
        return self._session.state

    def newest(self) -> Model | None:
        """Return the newest complete version, whatever the rule says."""
        return self._running.glance(lambda: self._session.reader.follower.newest)

    def last_model(self) -> Model | None:
        """Return the newest version of a run that has ended; None if it ended before any was complete.

        A session ends although the last parameters are still on their way, if that takes long: then they are read here.

        Raises:
            WaitTimeout: they are not there within the time.
        """
        newest, ended = self.newest(), self.look().ended
        if ended is None or (newest is not None and newest.version >= ended.version):
            return newest
        log.info("reading version %d, with which the run has ended", ended.version)
        return read_newest(self._broker, self._run, self._timeout_s)

    def startable(self) -> Model | None:
        """Return the version that a clock may be started on right now, if any."""
        self._running.check()
        return self._running.glance(self._session.may_start)

    @property
    def unsettled(self) -> int:
        """How many of our clocks the ledger has not decided on."""
        return self._running.glance(self._count_unsettled)

    # -- samples -----------------------------------------------------------------------------------------------------

    def samples(self) -> Samples:
        """Return what is leased to us and no clock under way has read."""
        return self._running.glance(lambda: self._session.samples)

    def find(self, drawing: Drawing) -> Found | None:
        """Wait until it is known what there is to read; None if the run or our membership is over.

        Raises:
            WaitTimeout: not within the time; says for whom it waited.
            BrokerError: Kafka refuses to work with us.
        """
        return self._wait(lambda: drawing.look(self._session), self._timeout_s)

    # -- clocks ------------------------------------------------------------------------------------------------------

    def next_model(self) -> Model | None:
        """Wait until the rule lets a clock be started; None when the run has ended.

        Raises:
            WaitTimeout: not within the time; says for whom it waited.
            MemberRemoved: another process has taken this worker's name.
            RunRefused: the run has other settings or another model; says which.
            RunError: the run ended with a failure.
            IntegrityError: the log contradicts itself.
            BrokerError: Kafka refuses to work with us.
        """
        while True:
            model = self._wait(self._session.may_start, self._timeout_s)
            finish = self._running.finished
            if model is not None or finish is None:
                return model
            if not self._may_go_on(finish):
                return None
            self._close_running()
            if self._session.state.has_begun:
                check_same_run(self._broker, self._run, self._session.state.start)
            self._session, self._running = self._begin(gives_way=self._session.may_return)

    def contribute(self, model: Model, gradient: Gradient) -> bool:
        """Spend a clock on a gradient that was computed on ``model``; False if the run or our membership is over."""
        return self._spend(lambda: self._session.contribute(model, gradient))

    def skip(self, model: Model, cursor: int, reason: str, samples: Samples = ()) -> bool:
        """Spend a clock without a gradient, and discard what it has read; False as for `contribute`."""
        return self._spend(lambda: self._session.skip(model, cursor, reason, samples))

    def _spend(self, effects: Callable[[], Iterable[Effect]]) -> bool:
        spent = False

        def spend() -> Iterable[Effect]:
            nonlocal spent
            if self._session.finished is not None or self._session.group is None:
                return []  # over, or removed, while the script computed
            spent = True
            return effects()

        self._running.check()
        self._session.waiting_share = self._waiting.share
        self._running.telling(spend)
        return spent

    def _wait(self, question: Callable[[], T | None], timeout_s: float) -> T | None:
        with self._waiting:
            return self._running.asking(question, stop=self._stop, timeout_s=timeout_s, whom=self._session.waiting_for)

    def _may_go_on(self, finish: Finish) -> bool:
        """Whether a new incarnation shall begin; False at a good end of the run, an error at any other."""
        if self._session.may_return:
            log.warning("%s; it joins again", finish.failure)
            return True
        if finish.reason == "refused" and not self._knew_run:
            return True  # another worker's proposal was chosen: its run decides what we did not choose ourselves
        check_finish(finish)
        return False

    # -- closing -----------------------------------------------------------------------------------------------------

    def close(self, settle_s: float) -> None:
        """Leave the run; wait up to ``settle_s`` seconds for what is under way to be decided on. Idempotent.

        Whoever interrupts the wait ends it; the goodbye is said and what is under way is flushed all the same.
        """
        try:
            if self._running.finished is None and not self._stop.is_set():
                self._stop.set()
                self._settle(settle_s)
        finally:
            self._close_running()

    def _settle(self, settle_s: float) -> None:
        """Wait for decisions, say goodbye however the wait ends, and note how many are missing."""
        try:
            self._running.asking(
                lambda: None if self._count_unsettled() else True,
                stop=threading.Event(),
                timeout_s=settle_s,
                whom=lambda: "the ledger to decide on what is under way",
            )
            self._say_goodbye()
        except WaitTimeout:
            self._say_goodbye()
        except DriftlineError as error:  # Kafka is gone: then nobody hears a goodbye
            log.warning("%s", error)
        except BaseException:  # Ctrl-C, or SIGTERM
            self._say_goodbye()
            raise
        finally:
            self._undecided = self.unsettled

    def _say_goodbye(self) -> None:
        self._running.telling(lambda: self._session.leave("closed by the script"))

    @property
    def left(self) -> Left:
        """What is left behind, once this is closed."""
        return Left(self._running.undelivered, self._undecided)

    def _close_running(self) -> None:
        self._running.close()

    def _count_unsettled(self) -> int:
        group = self._session.group
        return 0 if group is None else self._session.clock - group.settled_clock


def leave(member: Participation, using: ExitStack, pid: int, settle_s: float) -> int:
    """Close a membership and what it used, say what is left behind, and return how many records were not delivered.

    In a forked child nothing happens: threads and connections are the parent's.
    """
    if os.getpid() != pid:
        return 0
    try:
        member.close(settle_s)
    finally:
        using.close()
        left = member.left
        if str(left):
            log.error("worker %s leaves with %s", member.worker, left)
    return left.undelivered
