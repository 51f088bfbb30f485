"""Whether a ledger is still that of the run that a process has read: a process that slept may have missed its end.

A run can be deleted, and another of its name can begin and grow past the position of a reader. What this one reads then
builds on records that it has never seen, so no record counts for it, and it would wait for ever.
"""

import logging
import time
from contextlib import closing

from driftline.broker.port import Broker
from driftline.broker.topics import Stream, topic_name
from driftline.errors import BrokerError, RunRefused, WaitTimeout
from driftline.ledger.entering.birth import read_birth
from driftline.ledger.run_state import RunState
from driftline.schemas.records import RunStart

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
"""Seconds between two looks at the records that came; questions in between are answered with no."""


class SameRun:
    """Reads the beginning of a ledger again when most of its new records do not count.

    Replaced coordinators leave such records behind, too, so they are a reason to look, and no proof. And a coordinator
    that woke up counts its own records, so a few that count are no proof either.

    Args:
        broker: where the run's topics are.
        run: its name.
        state: fold of its ledger; it moves on.
    """

    def __init__(self, broker: Broker, run: str, state: RunState) -> None:
        self._broker, self._run, self._state = broker, run, state
        self._valid, self._void = state.chain.valid, state.chain.void
        self._looked_s = time.monotonic()

    def look(self) -> None:
        """Check when new records give a reason; to be called in every turn of a loop.

        Raises:
            RunRefused: the run was deleted; says whether another began under its name.
            IntegrityError: the ledger contradicts itself.
        """
        if self.is_in_doubt():
            self.check()

    def is_in_doubt(self) -> bool:
        """Whether of the records since the last question more do not count than do; asked once a second at most."""
        if time.monotonic() - self._looked_s < LOOK_EVERY_S:
            return False
        self._looked_s = time.monotonic()
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
        found = (
            "there is none of that name" if now is None else f"another ({now.run.hex()[:8]}) has begun under its name"
        )
        raise RunRefused(
            f"run {run!r} ({start.run.hex()[:8]}) was deleted, {found}; this process does not begin it again"
        )


def _start(broker: Broker, run: str) -> RunStart | None:
    ledger = topic_name(run, Stream.LEDGER)
    with closing(broker.admin()) as admin:
        if ledger not in admin.topics([ledger]):
            return None
    state = read_birth(broker, run)
    return state.start if state.has_begun else None
