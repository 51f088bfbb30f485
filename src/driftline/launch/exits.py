"""Goodbyes that are said for workers whose processes have died without one.

A run waits for a silent worker until `gone_after_ticks` ticks have passed, because it may be slow. Whoever started the
process knows better: once the system has buried it, nothing of it comes but what is on its way already, and that is as
good or as void as that of any worker that leaves. The mark in its incarnation keeps others out of it: a namesake
elsewhere, and the process that is started in its place.
"""

import time
from collections.abc import Collection, Mapping
from typing import Final

from driftline.broker.port import Broker, Producer
from driftline.broker.topics import Stream, topic_name
from driftline.consumers.coordinator.pending_members import PROCESS_ENDED
from driftline.errors import BrokerError
from driftline.producers.incarnations import MARK_BYTES
from driftline.schemas.codec import encode
from driftline.schemas.records import Leave

AGAIN_S: Final = 0.25
"""A goodbye is said again after so long, for as long as the ledger has the member: a new coordinator may need it."""


class Farewells:
    """Says them. Used by one thread; makes a producer when the first is due.

    Args:
        broker: where the run's topics are.
        run: the run's name.
    """

    def __init__(self, broker: Broker, run: str) -> None:
        self._broker = broker
        self._topic = topic_name(run, Stream.EVENTS)
        self._producer: Producer | None = None
        self._under_way: set[bytes] = set()
        self._said_s: dict[bytes, float] = {}

    def look(self, run_uuid: bytes, members: Mapping[str, bytes], dead: Collection[bytes]) -> None:
        """Say goodbye for those members of a run whose processes are dead.

        Args:
            run_uuid: of the run, 16 bytes.
            members: worker → incarnation, as the ledger has them.
            dead: marks of processes that have ended.
        """
        if self._producer is not None:
            self._producer.poll()
        now_s = time.monotonic()
        for worker, incarnation in members.items():
            said_s = self._said_s.get(incarnation)
            is_due = incarnation not in self._under_way and (said_s is None or now_s - said_s >= AGAIN_S)
            if is_due and incarnation[:MARK_BYTES] in dead:
                self._said_s[incarnation] = now_s
                self._say(Leave(run=run_uuid, worker=worker, incarnation=incarnation, reason=PROCESS_ENDED))

    def _say(self, goodbye: Leave) -> None:
        if self._producer is None:
            self._producer = self._broker.producer()
        incarnation = goodbye.incarnation

        def delivered(_error: BrokerError | None) -> None:
            self._under_way.discard(incarnation)  # if it was not taken, it is said again

        self._under_way.add(incarnation)
        try:
            self._producer.send(self._topic, 0, encode(goodbye), on_delivery=delivered)
        except BrokerError as error:
            delivered(error)

    def close(self) -> None:
        """Release the producer, without waiting for anything."""
        if self._producer is not None:
            self._producer.close(0.0)
