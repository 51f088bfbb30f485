"""Tells the coordinator that a worker's process has ended, so that the run does not wait for its heartbeat.

A run waits for a silent worker until `gone_after_ticks` ticks have passed, because it may be slow. The process that
started it knows sooner that it has ended. It then sends the ``Leave`` that the worker could not send. The mark in the
worker's incarnation makes sure that this removes no other process of the same name.
"""

import time
from collections.abc import Collection, Mapping
from typing import Final

from driftline.broker.port import Broker, Producer
from driftline.broker.topics import Stream, topic_name
from driftline.consumers.coordinator.pending_members import PROCESS_ENDED
from driftline.errors import BrokerError
from driftline.producers.member import MARK_BYTES
from driftline.schemas.codec import encode
from driftline.schemas.records import Leave

RESEND_S: Final = 0.25
"""Seconds between two reports of an exit while the ledger still has the member: a new coordinator may need it."""


class ExitReporter:
    """Sends a ``Leave`` for each worker whose process has ended. Used by one thread.

    Args:
        broker: where the run's topics are.
        run: the run's name.
    """

    def __init__(self, broker: Broker, run: str) -> None:
        self._broker = broker
        self._topic = topic_name(run, Stream.EVENTS)
        self._producer: Producer | None = None
        self._in_flight: set[bytes] = set()
        self._sent_s: dict[bytes, float] = {}

    def report_exits(self, run_uuid: bytes, members: Mapping[str, bytes], ended: Collection[bytes]) -> None:
        """Report the members of a run whose processes have ended, as long as the ledger has them.

        Args:
            run_uuid: of the run, 16 bytes.
            members: worker → incarnation, as the ledger has them.
            ended: marks of processes that have ended.
        """
        if self._producer is not None:
            self._producer.poll()
        now_s = time.monotonic()
        for worker, incarnation in members.items():
            is_due = now_s - self._sent_s.get(incarnation, -RESEND_S) >= RESEND_S
            if incarnation[:MARK_BYTES] in ended and incarnation not in self._in_flight and is_due:
                self._sent_s[incarnation] = now_s
                self._send(Leave(run=run_uuid, worker=worker, incarnation=incarnation, reason=PROCESS_ENDED))

    def _send(self, leave: Leave) -> None:
        if self._producer is None:
            self._producer = self._broker.producer()

        def delivered(_error: BrokerError | None) -> None:
            self._in_flight.discard(leave.incarnation)  # a lost one is sent again

        self._in_flight.add(leave.incarnation)
        try:
            self._producer.send(self._topic, 0, encode(leave), on_delivery=delivered)
        except BrokerError as error:
            delivered(error)

    def close(self) -> None:
        """Release the producer, without waiting for anything."""
        if self._producer is not None:
            self._producer.close(0.0)
