"""One worker's part in a run: it joins, waits for versions, spends clocks, joins again if it was removed, and leaves.

Tasks and scripts stand on it. They compute on their own thread, and everything here is called on that thread; Kafka is
on a thread of its own (`Running`).
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TypeVar

from driftline.broker.port import Broker
from driftline.errors import DriftlineError, WaitTimeout
from driftline.ledger.entering.checkpoint import enter_ledger
from driftline.ledger.entering.reading import read_present
from driftline.ledger.entering.same_run import check_same_run
from driftline.ledger.follower import Model
from driftline.ledger.run_state import RunState
from driftline.producers.deltas import Gradient, NoGradient
from driftline.producers.member import new_incarnation
from driftline.producers.proposal import Offer
from driftline.producers.session import WorkerSession
from driftline.runtime.running import Running
from driftline.schemas.effects import Effect, Finish
from driftline.schemas.run.config import RunConfig
from driftline.telemetry.metrics import WatchMetrics, ignore_metrics
from driftline.training.worker.metrics import worker_samples
from driftline.training.worker.newest import read_newest

log = logging.getLogger(__name__)

T = TypeVar("T")

MakeOffer = Callable[[RunConfig | None], Offer]
"""What a worker would start the run with, and what the run must fit. It is given the settings of a run that exists."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What a worker that has left did not finish.

    Attributes:
        undelivered: records that Kafka did not acknowledge.
        unsettled: contributions that the ledger had not decided on.
    """

    undelivered: int
    unsettled: int

    def __str__(self) -> str:
        """Name what there is; empty if nothing is unfinished."""
        parts = (
            (self.undelivered, "records that Kafka has not acknowledged"),
            (self.unsettled, "contributions that the ledger has not decided on"),
        )
        return " and ".join(f"{count} {words}" for count, words in parts if count)


class Participation:
    """One worker of a run, from its start to `close`.

    Args:
        broker: where the run's topics are.
        run: the run's name.
        worker: its name.
        make_offer: called at the start, and again before it joins again.
        timeout_s: seconds that one wait for others may take.
        stop: set it to end a wait, so that the worker can leave.
        mark: with which its incarnations begin, so that the launcher of the process recognises it; empty for none.
        watch: receives the source of the worker's metrics, each time that it joins.
    """

    def __init__(
        self,
        broker: Broker,
        run: str,
        worker: str,
        make_offer: MakeOffer,
        *,
        timeout_s: float,
        stop: threading.Event | None = None,
        mark: bytes = b"",
        watch: WatchMetrics = ignore_metrics,
    ) -> None:
        self.worker = worker
        self._broker = broker
        self._run = run
        self._make_offer = make_offer
        self._timeout_s = timeout_s
        self._stop = threading.Event() if stop is None else stop
        self._owns_stop = stop is None
        self._mark = mark
        self._watch = watch
        self._waiting = WaitShare()
        self._is_closed = False
        self._undecided = 0
        self._join(gives_way=False)

    def _join(self, *, gives_way: bool) -> None:
        search = enter_ledger(self._broker, self._run)
        state = read_present(self._broker, self._run, search)
        self._knew_run = state.has_begun
        if state.worker_group(self.worker) is not None and not gives_way and not self._mark:
            log.warning("run %s has a member called %s already; this process takes its place", self._run, self.worker)
        offer = self._make_offer(state.config if state.has_begun else None)
        incarnation, run_uuid = new_incarnation(self._mark), os.urandom(16)
        self._session = session = WorkerSession(
            self.worker, incarnation, offer, run_uuid, gives_way=gives_way, state=search.state()
        )
        self._running = Running(self._broker, self._run, session, self.worker)
        self._watch(partial(self._running.samples, partial(worker_samples, session)))
        self._running.__enter__()

    # -- questions ---------------------------------------------------------------------------------------------------

    @property
    def state(self) -> RunState:
        """The fold of the ledger. It moves on: read single values only."""
        return self._session.state

    @property
    def finish(self) -> Finish | None:
        """How the run or the membership ended, if it has."""
        return self._running.finished

    @property
    def starts_before(self) -> int:
        """How many earlier starts of this worker the ledger holds; only for a member."""
        starts = [start for worker, start in self.state.joined if worker == self.worker]
        return starts.index(self._session.incarnation)

    def ask(self, question: Callable[[WorkerSession], T]) -> T:
        """Ask the session something, under its lock; raises what went wrong on its thread, if anything did."""
        self._running.check()
        return self._running.query(lambda: question(self._session))

    def last_model(self) -> Model | None:
        """Return the newest version of a run that has ended; None if it ended before any was complete.

        A session may end while the last parameters are still on their way; then they are read here.

        Raises:
            WaitTimeout: they did not come within the time.
        """
        newest = self._running.query(lambda: self._session.reader.follower.newest)
        ended = self.state.ended
        if ended is None or (newest is not None and newest.version >= ended.version):
            return newest
        log.info("reading version %d, with which the run has ended", ended.version)
        return read_newest(self._broker, self._run, self._timeout_s)

    # -- waiting -----------------------------------------------------------------------------------------------------

    def next_model(self) -> Model | None:
        """Wait until the rule lets a clock start, and join again if need be; None once `finish` or ``stop`` is set.

        Raises:
            WaitTimeout: not within the time; says which workers it waited for.
            RunRefused: the run was deleted, or a setting was chosen that the run has otherwise.
            BrokerError: Kafka refuses to work with us.
        """
        while True:
            model = self.wait(WorkerSession.may_start)
            finish = self.finish
            if model is not None or finish is None or not self._may_join_again(finish):
                return model
            self._running.close()
            if self.state.has_begun:
                check_same_run(self._broker, self._run, self.state.start)
            self._join(gives_way=self._session.may_return)

    def wait(self, question: Callable[[WorkerSession], T | None]) -> T | None:
        """Wait until the session has an answer; None once `finish` or ``stop`` is set. Errors as for `next_model`."""
        with self._waiting:
            return self._running.wait_for(
                lambda: question(self._session),
                stop=self._stop,
                timeout_s=self._timeout_s,
                whom=self._session.waiting_for,
            )

    def _may_join_again(self, finish: Finish) -> bool:
        if self._session.may_return:
            log.warning("%s; it joins again", finish.failure)
            return True
        # Another worker's proposal was chosen: its run decides what was not chosen here.
        return finish.reason == "refused" and not self._knew_run

    # -- clocks ------------------------------------------------------------------------------------------------------

    def spend_clock(self, model: Model, result: Gradient | NoGradient) -> bool:
        """Spend a clock on what was computed on ``model``.

        Args:
            model: the version that the clock began with.
            result: its samples are used up, or discarded if it is no gradient.

        Returns:
            False if it is too late: the run or the membership is over.
        """
        spent = False

        def spend() -> Iterable[Effect]:
            nonlocal spent
            session = self._session
            if session.finished is not None or session.group is None:
                return []
            spent = True
            session.waiting_share = self._waiting.share
            if isinstance(result, NoGradient):
                return session.skip(model, result.cursor, result.reason, result.samples)
            return session.contribute(model, result)

        self._running.perform(spend)
        return spent

    # -- leaving -----------------------------------------------------------------------------------------------------

    def close(self, reason: str, settle_s: float = 0.0) -> Unfinished:
        """Leave the run, after up to ``settle_s`` seconds in which the ledger may decide on what is under way.

        Idempotent. If the wait is interrupted, the worker leaves at once and what is under way is flushed all the same.

        Args:
            reason: stands in the log.
            settle_s: seconds.

        Returns:
            What was not finished.
        """
        try:
            if self.finish is None and not self._is_closed:
                self._is_closed = True
                if self._owns_stop:
                    self._stop.set()
                self._settle(reason, settle_s)
        finally:
            self._running.close()
        return self.unfinished

    def _settle(self, reason: str, settle_s: float) -> None:
        """Wait for decisions, leave however the wait ends, and note how many decisions are missing."""
        try:
            self._running.wait_for(
                lambda: None if _unsettled(self._session) else True,
                stop=threading.Event(),
                timeout_s=settle_s,
                whom=lambda: "the ledger to decide on what is under way",
            )
            self._leave(reason)
        except WaitTimeout:
            self._leave(reason)
        except DriftlineError as error:  # Kafka is away: no process would read that this one leaves
            log.warning("%s", error)
        except BaseException:  # Ctrl-C, or SIGTERM
            self._leave(reason)
            raise
        finally:
            self._undecided = self._running.query(lambda: _unsettled(self._session))

    def _leave(self, reason: str) -> None:
        self._running.perform(lambda: self._session.leave(reason))

    @property
    def unfinished(self) -> Unfinished:
        """What was not finished, once this is closed."""
        return Unfinished(self._running.undelivered, self._undecided)


def _unsettled(session: WorkerSession) -> int:
    group = session.group
    return 0 if group is None else session.clock - group.settled_clock


class WaitShare:
    """The share of its time that a worker waits: a context manager around each wait.

    The time begins when the first wait is over. Before that the run had not started, or the worker was no member; how
    long others took for that says nothing about the pace of training.

    Args:
        monotonic: seconds of a clock that never goes back.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._began_s: float | None = None
        self._from_s = 0.0
        self._waited_s = 0.0

    def __enter__(self) -> None:
        self._from_s = self._monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        now_s = self._monotonic()
        if self._began_s is None:
            self._began_s = now_s
        else:
            self._waited_s += now_s - self._from_s

    @property
    def share(self) -> float:
        """Share of the time so far, from 0 to 1; 0 before the first wait is over."""
        so_far_s = 0.0 if self._began_s is None else self._monotonic() - self._began_s
        return self._waited_s / so_far_s if so_far_s > 0 else 0.0
