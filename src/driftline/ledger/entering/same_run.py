"""Whether a ledger is still that of the run which was read from it: somebody who slept may have missed its end.

A run can be deleted, and another of its name begin and outgrow the place where a process read on. All that this one
reads then builds on records that it has never seen, so nothing counts for it, and it would wait for ever.
"""

import logging
from contextlib import closing

from driftline.broker.port import Broker
from driftline.broker.topics import Stream, topic_name
from driftline.errors import BrokerError, RunRefused, WaitTimeout
from driftline.ledger.entering.birth import read_birth
from driftline.ledger.run_state import RunState
from driftline.schemas.records import RunStart

log = logging.getLogger(__name__)


class SameRun:
    """Looks at the beginning of a ledger again when most of its new records do not count.

    Replaced coordinators leave such records behind, too, so they are a reason to look, and no proof. And a coordinator
    that woke up counts what it writes itself, so some that count are no proof either.

    Args:
        broker: where the run's topics are.
        run: its name.
        state: fold of its ledger; it moves on.
    """

    def __init__(self, broker: Broker, run: str, state: RunState) -> None:
        self._broker, self._run, self._state = broker, run, state
        self._valid, self._void = state.chain.valid, state.chain.void

    def is_in_doubt(self) -> bool:
        """Whether of the records since the last question more do not count than do."""
        chain = self._state.chain
        valid, void = chain.valid - self._valid, chain.void - self._void
        self._valid, self._void = chain.valid, chain.void
        return self._state.has_begun and void > valid

    def check(self) -> None:
        """Return if the run is the same, or Kafka does not say; takes as long as Kafka takes to answer.

        Raises:
            RunRefused: it was deleted; says whether another began under its name.
            IntegrityError: the ledger contradicts itself.
        """
        if not self._state.has_begun:
            return
        try:
            check_same_run(self._broker, self._run, self._state.start)
        except (BrokerError, WaitTimeout) as error:
            log.info("whether run %s is still the same cannot be looked up: %s", self._run, error)


def check_same_run(broker: Broker, run: str, start: RunStart) -> None:
    """Return if the run of this name is still the one that began with ``start``.

    Raises:
        RunRefused: it was deleted; says whether another began under its name.
        IntegrityError: the ledger contradicts itself.
        WaitTimeout: it could not be read in time.
        BrokerError: Kafka is away.
    """
    now = _start(broker, run)
    if now is None or now.run != start.run:
        said = (
            "there is none of that name" if now is None else f"another ({now.run.hex()[:8]}) has begun under its name"
        )
        raise RunRefused(f"run {run!r} ({start.run.hex()[:8]}) was deleted, {said}; this process begins nothing anew")


def _start(broker: Broker, run: str) -> RunStart | None:
    ledger = topic_name(run, Stream.LEDGER)
    with closing(broker.admin()) as admin:
        if ledger not in admin.topics([ledger]):
            return None
    state = read_birth(broker, run)
    return state.start if state.has_begun else None
