"""A server process: wait for the run's topics, then serve until the run ends."""

import logging
import os
import random
import threading
import time
from functools import partial

from driftline.broker.port import Admin, Broker, Start
from driftline.broker.topics import Stream, check_run_name, topic_name
from driftline.consumers.server.allocator import trimming, tune_allocator
from driftline.consumers.server.metrics import server_samples
from driftline.consumers.server.server import Server
from driftline.errors import BrokerUnreachable, RunRefused, TopicMissing
from driftline.ledger.entering.checkpoint import enter_ledger
from driftline.ledger.entering.remains import check_ledger_kept
from driftline.ledger.entering.same_run import SameRun
from driftline.ledger.known_ends import WAY_OUT
from driftline.rules import choose_engine
from driftline.rules.flush_to_zero import require_denormals
from driftline.runtime.shell import TIMER_S, GroupStream, Shell
from driftline.schemas.effects import Finish
from driftline.telemetry.metrics import Sample, WatchMetrics, ignore_metrics

log = logging.getLogger(__name__)

SERVER_GROUPS = (
    GroupStream(Stream.DELTAS, "servers", Start.BEGINNING, held=True),
    GroupStream(Stream.EVENTS, "coordinator", Start.END),
)
"""What servers share among them."""

LOOK_S = 0.5
"""Seconds between two looks for the topics of a run that has not been created yet."""

SAY_S = 5.0
"""Seconds between two lines that say what is waited for."""


def serve(
    broker: Broker,
    run: str,
    name: str,
    *,
    stop: threading.Event,
    patience_s: float = 600.0,
    watch: WatchMetrics = ignore_metrics,
) -> Finish:
    """Serve a run until it ends or ``stop`` is set.

    Args:
        broker: where the run's topics are, or will be.
        run: the run's name.
        name: of this server, unique in the run.
        stop: set it to end the server in an orderly way.
        patience_s: seconds to wait for the run's topics.
        watch: receives the source of the server's metrics.

    Raises:
        UsageError: the run's name is not usable.
        RunRefused: the run was not created in time, or it was deleted and another began under its name.
        BrokerError: Kafka refuses to work with us.
    """
    check_run_name(run)
    require_denormals()
    tune_allocator()
    log.info("%s", choose_engine())  # chosen before the first poll: compiling takes seconds
    if not wait_for_run(broker, run, stop=stop, patience_s=patience_s):
        return Finish("stopped before the run began")
    rng = random.Random(os.urandom(32))  # noqa: S311 - back-off; nonces need no secrecy
    core = Server(name, os.urandom(16), rng, enter_ledger(broker, run).state())
    shell = Shell(broker, run, core, name, SERVER_GROUPS)
    watch(partial(_samples, shell, core))
    try:
        with trimming():
            return _until_over(shell, SameRun(broker, run, core.state), stop)
    finally:
        shell.close()


def _until_over(shell: Shell, same_run: SameRun, stop: threading.Event) -> Finish:
    while shell.finished is None and not stop.is_set():
        shell.step(TIMER_S)
        same_run.look()
    if shell.finished is not None and shell.finished.failure:
        same_run.check()  # of what is missing in another run's topics, that is the reason
    return shell.finished or Finish("stopped")


def _samples(shell: Shell, core: Server) -> list[Sample]:
    with shell.changed:
        return [*server_samples(core), *shell.samples()]


def wait_for_run(broker: Broker, run: str, *, stop: threading.Event, patience_s: float) -> bool:
    """Wait until all topics of a run exist; return False if ``stop`` was set first.

    Raises:
        RunRefused: not there within ``patience_s``, or what is left of a run whose ledger was lost.
    """
    admin = broker.admin()
    try:
        there = _look_for_topics(admin, run, stop, patience_s)
    finally:
        admin.close()
    while there and not stop.is_set():
        if _is_kept(broker, run):
            return True
        stop.wait(LOOK_S)
    return False


def _is_kept(broker: Broker, run: str) -> bool:
    """Whether the run's ledger is known to be as it was; not while Kafka is away or still making the topics.

    Raises:
        RunRefused: it is not.
    """
    try:
        check_ledger_kept(broker, run)
    except (BrokerUnreachable, TopicMissing) as error:
        log.warning("%s", error)
        return False
    return True


def _existing(admin: Admin, wanted: set[str]) -> set[str]:
    """Return those of the topics that exist; none while Kafka is away, which is no reason to stop waiting.

    By name: a topic that we have no right to see is an error then, and would never come into the list of all.
    """
    try:
        return set(admin.topics(sorted(wanted)))
    except BrokerUnreachable as error:
        log.warning("%s", error)
        return set()


def _look_for_topics(admin: Admin, run: str, stop: threading.Event, patience_s: float) -> bool:
    wanted = {topic_name(run, stream) for stream in Stream}
    started_s = said_s = time.monotonic()
    while not stop.is_set():
        existing = _existing(admin, wanted)
        if wanted <= existing:
            return True
        now_s = time.monotonic()
        if now_s - started_s > patience_s:
            raise RunRefused(_still_missing(run, wanted - existing, patience_s, is_begun=bool(existing)))
        if now_s - said_s > max(SAY_S, (said_s - started_s) / 2):  # less and less often: it may take all night
            said_s = now_s
            some = f"{', '.join(sorted(wanted - existing))} is not there" if existing else "the first worker makes them"
            log.info("waiting for the topics of run %r: %s", run, some)
        stop.wait(LOOK_S)
    return False


def _still_missing(run: str, missing: set[str], patience_s: float, *, is_begun: bool) -> str:
    if not is_begun:
        return f"run {run!r} does not exist after {patience_s:.0f} s; a worker creates it: driftline worker"
    return (
        f"run {run!r} is not whole after {patience_s:.0f} s: {', '.join(sorted(missing))} is not there, other topics "
        f"of it are. Was it deleted? {WAY_OUT[0].upper()}{WAY_OUT[1:]}"
    )
