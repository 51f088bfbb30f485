"""The in-memory ``Admin``."""

import re
from collections.abc import Iterable, Mapping, Sequence

from driftline.broker.clients import ClientGuard, check_partitions
from driftline.broker.port import Bounds, TopicSpec
from driftline.broker.topics import MAX_TOPIC_CHARS
from driftline.errors import BrokerError, TopicMissing
from driftline.testing.memory.core import Core

_LEGAL_TOPIC = re.compile(r"[A-Za-z0-9._-]+")


class MemoryAdmin:
    """Topics and offsets of the in-memory log."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._guard = ClientGuard("admin client")

    def topics(self, names: Iterable[str] | None = None) -> Mapping[str, int]:
        """See ``Admin.topics``."""
        self._guard.check()
        with self._core.changed:
            self._core.reach()
            existing = self._core.log.topics()
        return existing if names is None else {name: existing[name] for name in names if name in existing}

    def configs(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """See ``Admin.configs``; only the settings that a topic was made with: this broker does not act on any."""
        self._guard.check()
        with self._core.changed:
            self._core.reach()
            return {name: dict(self._core.log.config(name)) for name in names}

    def create(self, specs: Sequence[TopicSpec]) -> None:
        """See ``Admin.create``."""
        self._guard.check()
        with self._core.changed:
            self._core.reach()
            existing = self._core.log.topics()
            for spec in specs:
                _check(spec, existing.get(spec.name, spec.partitions))
            for spec in specs:
                self._core.log.create(spec)

    def delete(self, names: Sequence[str]) -> None:
        """See ``Admin.delete``."""
        self._guard.check()
        with self._core.changed:
            self._core.reach()
            for name in names:
                self._core.log.delete(name)
            self._core.changed.notify_all()

    def bounds(self, topic: str) -> Mapping[int, Bounds]:
        """See ``Admin.bounds``."""
        self._guard.check()
        with self._core.changed:
            self._core.reach()
            partitions = self._core.log.topics().get(topic)
            if partitions is None:
                raise TopicMissing(f"topic {topic} does not exist")
            return {partition: self._core.log.bounds(topic, partition) for partition in range(partitions)}

    def why_not_writable(self, topic: str) -> Sequence[str]:
        """See ``Admin.why_not_writable``."""
        self.bounds(topic)
        return []

    def trim(self, topic: str, before: Mapping[int, int]) -> None:
        """See ``Admin.trim``."""
        self._guard.check()
        with self._core.changed:
            self._core.reach()
            for partition, offset in before.items():
                self._core.log.trim(topic, partition, offset)

    def close(self) -> None:
        """See ``Admin.close``."""
        self._guard.close()


def _check(spec: TopicSpec, found: int) -> None:
    if len(spec.name) > MAX_TOPIC_CHARS or spec.name in {".", ".."} or not _LEGAL_TOPIC.fullmatch(spec.name):
        raise BrokerError(f"topic {spec.name!r} was refused: Kafka does not allow this name")
    if spec.partitions < 1:
        raise BrokerError(f"topic {spec.name!r} was refused: it has {spec.partitions} partitions, give 1 or more")
    check_partitions(spec, found)
