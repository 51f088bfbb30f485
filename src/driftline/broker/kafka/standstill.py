"""Partitions that a client reads no further although the log goes on.

After a change of leader librdkafka asks the new one whether a position is still in the log. When several nodes come and
go at once, it may never get, or never take, an answer: then it stands still for ever, and says nothing. A server whose
ledger stood still like that claimed the coordinator's role again and again, and the whole run waited for it.
"""

import logging
from collections.abc import Collection

from confluent_kafka import TopicPartition

from driftline.broker.kafka.consumer import Lookup, StillThere
from driftline.broker.kafka.deadline import Deadline
from driftline.errors import BrokerUnreachable, TopicMissing

_log = logging.getLogger(__name__)

_LOOK_S = 0.5
"""Longest look at where a partition ends; it is repeated."""

Place = tuple[str, int]


class Standstill:
    """Knows where each partition is read next, and finds those that have not moved for long and could.

    Args:
        lookup: asks where partitions end.
        patience_s: how long one may stand still before that is asked.
    """

    def __init__(self, lookup: Lookup, patience_s: float) -> None:
        self._lookup, self._patience_s = lookup, patience_s
        self._next: dict[Place, int] = {}
        self._before: dict[Place, int] = {}
        self._due = Deadline(patience_s)

    def at(self, topic: str, partition: int, offset: int) -> None:
        """Note that this is read next."""
        self._next[topic, partition] = offset

    def forget(self, topic: str, partition: int) -> None:
        """Note that a partition is no longer read."""
        self._next.pop((topic, partition), None)

    def begin(self, topic: str, partition: int) -> None:
        """Note that a partition had a reason to stand still, and has none any longer."""
        self._before.pop((topic, partition), None)

    def found(self, read: Collection[Place] | None = None) -> list[StillThere]:
        """Return the partitions that are to be placed again; call it while nothing arrives.

        Args:
            read: those that are read, if not all are that were noted: one that is paused stands still rightly.
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
            _log.warning("%s[%d] is read anew from offset %d, where its reading stood still", topic, partition,
                         self._next[topic, partition])  # fmt: skip
        return [StillThere(TopicPartition(*place, self._next[place])) for place in stuck]

    def _goes_on(self, place: Place) -> bool:
        try:
            bounds = self._lookup.bounds(place[0], _LOOK_S).get(place[1])
        except (BrokerUnreachable, TopicMissing):
            return False
        return bounds is not None and bounds.begin <= self._next[place] < bounds.end
