"""Finds partitions whose reading stands still although the log goes on.

After a change of leader librdkafka asks the new leader whether a position is still in the log. When several nodes come
and go at once, it may never get or never use an answer: then it stands still for ever without an error. A server whose
ledger stood still like that claimed the coordinator's role again and again, and the whole run waited for it.
"""

import logging
from collections.abc import Collection

from confluent_kafka import TopicPartition

from driftline.broker.kafka.consumer import Lookup, PositionStillValid
from driftline.broker.kafka.deadline import Deadline
from driftline.errors import BrokerUnreachable, TopicMissing

_log = logging.getLogger(__name__)

_LOOK_S = 0.5
"""Longest look-up of the end of a partition; it is repeated."""

Partition = tuple[str, int]
"""Topic and partition number."""


class Standstill:
    """Knows the next offset of each partition, and finds those that stand still although they could move.

    Args:
        lookup: looks up the ends of partitions.
        patience_s: how long a partition may stand still before its end is looked up.
    """

    def __init__(self, lookup: Lookup, patience_s: float) -> None:
        self._lookup, self._patience_s = lookup, patience_s
        self._next: dict[Partition, int] = {}
        self._before: dict[Partition, int] = {}
        self._due = Deadline(patience_s)

    def at(self, topic: str, partition: int, offset: int) -> None:
        """Note the offset to read next."""
        self._next[topic, partition] = offset

    def forget(self, topic: str, partition: int) -> None:
        """Note that a partition is no longer read."""
        self._next.pop((topic, partition), None)

    def begin(self, topic: str, partition: int) -> None:
        """Note that a partition had a reason to stand still until now: it was paused."""
        self._before.pop((topic, partition), None)

    def found(self, read: Collection[Partition] | None = None) -> list[PositionStillValid]:
        """Return the partitions that the reader must place again; call it while no message arrives.

        Args:
            read: the partitions that are being read; None means all. A paused partition may stand still.
        """
        if not self._due.passed():
            return []
        still = [
            place
            for place, offset in self._next.items()
            if self._before.get(place) == offset and (read is None or place in read)
        ]
        self._before, stuck = dict(self._next), [place for place in still if self._goes_on(place)]
        self._due = Deadline(self._patience_s)
        for topic, partition in stuck:
            _log.warning("%s[%d] stood still at offset %d and is read from there again", topic, partition,
                         self._next[topic, partition])  # fmt: skip
        return [PositionStillValid(TopicPartition(*place, self._next[place])) for place in stuck]

    def _goes_on(self, place: Partition) -> bool:
        try:
            bounds = self._lookup.bounds(place[0], _LOOK_S).get(place[1])
        except (BrokerUnreachable, TopicMissing):
            return False
        return bounds is not None and bounds.begin <= self._next[place] < bounds.end
