"""What a member of a group owns, as librdkafka's callbacks tell it.

Apart from the reader, so that a client refers to this and this to no client: a client in a reference cycle would be
destroyed by the garbage collector, at any moment and on any thread.
"""

from collections import deque
from collections.abc import Iterable

from confluent_kafka import Consumer, Message, TopicPartition

from driftline.broker.kafka.consumer import about_partition
from driftline.broker.port import Assigned, Revoked


class Ownership:
    """Partitions of one topic, the changes that the caller has not heard of, and the records that wait behind them."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.given: set[int] = set()
        """Given by the group, but not yet placed: the caller has not heard of them."""
        self.owned: set[int] = set()
        self.paused: set[int] = set()
        self.changes: deque[Assigned | Revoked] = deque()
        self._held: deque[Message] = deque()

    def place(self) -> None:
        """Own what was given."""
        self.changes.append(Assigned(tuple(sorted(self.given))))
        self.owned |= self.given
        self.given = set()

    def hold(self, message: Message) -> None:
        """Keep a message until what happened before it was told; one of a partition that is not owned is dropped."""
        if self._concerns_us(message):
            self._held.append(message)

    def deliverable(self) -> bool:
        """Whether ``take`` would return something."""
        return any(each.partition() not in self.paused for each in self._held)

    def take(self) -> Message | None:
        """Remove and return the first held message that is of no paused partition."""
        for message in self._held:
            if message.partition() not in self.paused:
                self._held.remove(message)
                return message
        return None

    def drop(self, partition: int) -> None:
        """Forget the held messages of a partition, which is read from another position now."""
        self._held = deque(each for each in self._held if each.partition() != partition)

    def named(self, partitions: Iterable[int]) -> list[TopicPartition]:
        """Return partitions as librdkafka takes them."""
        return [TopicPartition(self.topic, partition) for partition in sorted(partitions)]

    def on_assign(self, client: Consumer, given: list[TopicPartition]) -> None:
        """Note partitions that are to be placed; called inside ``Consumer.poll``."""
        # Taking none acknowledges the assignment, without which librdkafka would start them all by itself.
        client.incremental_assign([])
        self.given.update(each.partition for each in given)

    def on_revoke(self, client: Consumer, taken: list[TopicPartition]) -> None:
        """Give partitions up; called inside ``Consumer.poll``."""
        self._give_up(client, taken, lost=False)

    def on_lost(self, client: Consumer, taken: list[TopicPartition]) -> None:
        """Give up partitions that may already belong to somebody else; called inside ``Consumer.poll``."""
        self._give_up(client, taken, lost=True)

    def _give_up(self, client: Consumer, taken: list[TopicPartition], *, lost: bool) -> None:
        partitions = self.owned.intersection(each.partition for each in taken)
        client.incremental_unassign(self.named(partitions))
        self.given.difference_update(each.partition for each in taken)
        self.owned -= partitions
        self.paused -= partitions
        # At once: the partition may come back before the next poll, and then from another position.
        self._held = deque(each for each in self._held if self._concerns_us(each))
        if partitions:
            self.changes.append(Revoked(tuple(sorted(partitions)), lost=lost))

    def _concerns_us(self, message: Message) -> bool:
        return message.partition() in self.owned or not about_partition(message)
