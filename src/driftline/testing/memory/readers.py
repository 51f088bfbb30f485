"""The in-memory ``Reader`` and ``GroupReader``."""

from collections.abc import Sequence
from dataclasses import dataclass

from driftline.broker.clients import ClientGuard
from driftline.broker.port import Assigned, EndReached, Position, Record, Revoked, Start
from driftline.errors import TopicMissing
from driftline.testing.memory.core import Core
from driftline.testing.memory.groups import Group


@dataclass
class _Cursor:
    topic: str
    partition: int
    offset: int
    goal: int | None
    """The end when reading began; None once it was returned."""
    end_returned: bool = False
    paused: bool = False


class _Cursors:
    """Reading positions, served in turn: one busy partition does not starve the others."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._cursors: list[_Cursor] = []

    def put(self, topic: str, partition: int, offset: int) -> None:
        self.drop(topic, partition)
        self._cursors.append(_Cursor(topic, partition, offset, self._core.log.bounds(topic, partition).end))

    def drop(self, topic: str, partition: int) -> None:
        self._cursors = [each for each in self._cursors if (each.topic, each.partition) != (topic, partition)]

    def pause(self, partitions: Sequence[int], *, paused: bool) -> None:
        for cursor in self._cursors:
            if cursor.partition in partitions:
                cursor.paused = paused

    def seek(self, topic: str, partition: int, offset: int) -> None:
        paused = any(each.paused for each in self._cursors if (each.topic, each.partition) == (topic, partition))
        self.put(topic, partition, offset)
        self._cursors[-1].paused = paused

    def next(self) -> Record | EndReached | None:
        for index, cursor in enumerate(self._cursors):
            if cursor.paused:
                continue
            found = self._advance(cursor)
            if found is not None:
                self._cursors = self._cursors[index + 1 :] + self._cursors[: index + 1]
                return found
        return None

    def _advance(self, cursor: _Cursor) -> Record | EndReached | None:
        try:
            record = self._core.log.read(cursor.topic, cursor.partition, cursor.offset)
        except Exception:
            # Raised once: a lost position or a deleted topic is not read any further.
            self.drop(cursor.topic, cursor.partition)
            raise
        if cursor.goal is not None and cursor.offset >= cursor.goal:
            return self._end(cursor)
        if record is not None:
            cursor.offset = record.offset + 1
            cursor.end_returned = False
            return record
        if cursor.end_returned:
            return None
        cursor.offset = self._core.log.bounds(cursor.topic, cursor.partition).end
        return self._end(cursor)

    @staticmethod
    def _end(cursor: _Cursor) -> EndReached:
        cursor.end_returned, cursor.goal = True, None
        return EndReached(cursor.topic, cursor.partition, cursor.offset)


class MemoryReader:
    """Reads named partitions of the in-memory log."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._cursors = _Cursors(core)
        self._guard = ClientGuard("reader")

    def read(self, topic: str, partition: int, position: Position) -> int:
        """See ``Reader.read``."""
        self._guard.check()
        with self._core.changed:
            self._core.reach()
            offset = self._core.resolve(topic, partition, position)
            self._core.log.read(topic, partition, offset)
            self._cursors.put(topic, partition, offset)
            return offset

    def stop(self, topic: str, partition: int) -> None:
        """See ``Reader.stop``."""
        self._guard.check()
        with self._core.changed:
            self._cursors.drop(topic, partition)

    def poll(self, timeout_s: float) -> Record | EndReached | None:
        """See ``Reader.poll``."""
        self._guard.check()
        return self._core.wait_for(self._next, timeout_s)

    def close(self) -> None:
        """See ``Reader.close``."""
        self._guard.close()

    def _next(self) -> Record | EndReached | None:
        return None if self._core.away else self._cursors.next()


class MemoryGroupReader:
    """Reads the partitions that a group of the in-memory broker assigns."""

    def __init__(self, core: Core, topic: str, group: str, member: str, start: Start) -> None:
        self._core = core
        self._topic = topic
        self._group_key = (group, topic)
        self._name = member
        self._start = start
        self._cursors = _Cursors(core)
        self._group: Group | None = None
        self._guard = ClientGuard("group reader")

    def poll(self, timeout_s: float) -> Record | EndReached | Assigned | Revoked | None:
        """See ``GroupReader.poll``."""
        self._guard.check()
        return self._core.wait_for(self._next, timeout_s)

    def pause(self, partitions: Sequence[int]) -> None:
        """See ``GroupReader.pause``."""
        self._guard.check()
        with self._core.changed:
            self._cursors.pause(partitions, paused=True)

    def resume(self, partitions: Sequence[int]) -> None:
        """See ``GroupReader.resume``."""
        self._guard.check()
        with self._core.changed:
            self._cursors.pause(partitions, paused=False)
            self._core.changed.notify_all()

    def seek(self, partition: int, offset: int) -> None:
        """See ``GroupReader.seek``."""
        self._guard.check()
        with self._core.changed:
            if self._group is not None and self._group.owns(self._member, partition):
                self._cursors.seek(self._topic, partition, offset)
                self._core.changed.notify_all()

    def close(self) -> None:
        """See ``GroupReader.close``."""
        if not self._guard.close():
            return
        with self._core.changed:
            if self._group is not None:
                self._group.leave(self._member)
            self._core.changed.notify_all()

    def _next(self) -> Record | EndReached | Assigned | Revoked | None:
        if self._core.away:
            return None
        group = self._joined()
        return self._change(group) or self._cursors.next()

    def _joined(self) -> Group:
        partitions = self._core.log.topics().get(self._topic)
        if partitions is None:
            raise TopicMissing(f"topic {self._topic} does not exist, so group {self._group_key[0]} cannot read it")
        if self._group is None:
            self._group = self._core.groups.setdefault(self._group_key, Group(partitions))
            self._member = self._group.join(self._name)
            self._core.changed.notify_all()
        self._group.resize(partitions)
        return self._group

    def _change(self, group: Group) -> Assigned | Revoked | None:
        taken = group.revoked(self._member)
        if taken is not None:
            partitions, lost = taken
            for partition in partitions:
                self._cursors.drop(self._topic, partition)
            self._core.changed.notify_all()
            return Revoked(partitions, lost=lost)
        given = group.assigned(self._member)
        for partition in given:
            self._cursors.put(self._topic, partition, self._core.resolve(self._topic, partition, self._start))
        return Assigned(given) if given else None
