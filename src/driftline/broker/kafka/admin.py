"""The Kafka ``Admin``."""

import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from driftline.broker.clients import ClientGuard, check_partitions
from driftline.broker.kafka.deadline import Deadline, close_within
from driftline.broker.kafka.errors import AWAY, FORBIDDEN, MISSING, ClientErrors, Right, translate, unreachable_error
from driftline.broker.kafka.hints import silence_hint, speaks_tls
from driftline.broker.kafka.settings import KafkaSettings
from driftline.broker.port import Bounds, TopicSpec
from driftline.broker.topic_check import Copies, why_not_writable
from driftline.errors import BrokerError, BrokerUnreachable, RightMissing, TopicMissing

_SLICE_S, _LONGEST_S = 0.5, 3.0
"""Longest time inside librdkafka at once, so that Ctrl-C gets through: at first, and at most. It grows while answers
are late: librdkafka drops the answer to a call that ended, so short calls alone never succeed on a busy machine."""
_PAUSE_S = 0.01
_SILENCE_S = 2.0
"""After this time without an answer the first address is asked whether it speaks TLS."""
_CLOSED = 3
"""This many connections closed without an error are no accident."""
_LEAST_S = 0.05
"""librdkafka accepts no time-out of zero."""
_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Address:
    """The address that a node advertises."""

    node: int
    host: str
    port: int


class KafkaAdmin:
    """Topics and offsets of a cluster; every call ends within the request time-out."""

    def __init__(self, settings: KafkaSettings, timeout_s: float | None = None) -> None:
        self._settings = settings
        self._timeout_s = settings.request_timeout_s if timeout_s is None else timeout_s
        self._errors = ClientErrors(settings)
        self._is_tls: bool | None = None
        self._slice_s = _SLICE_S
        self._guard = ClientGuard("admin client")
        properties: dict[str, Any] = {**settings.common(), "error_cb": self._errors.on_error}
        # Its context manager is the only way to close it.
        self._open = ExitStack()
        self._client = self._open.enter_context(AdminClient(properties))

    def topics(self, names: Iterable[str] | None = None, timeout_s: float | None = None) -> Mapping[str, int]:
        """See ``Admin.topics``; ``timeout_s`` replaces the request time-out."""
        deadline = self._deadline(timeout_s)
        known = self._leaders(deadline) if names is None else self._leaders_of(names, deadline)
        return {name: len(leaders) for name, leaders in known.items()}

    def configs(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """See ``Admin.configs``."""
        deadline = self._deadline()
        if not names:
            return {}
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        futures = self._client.describe_configs(resources, request_timeout=deadline.left_s(at_least=_LEAST_S))
        found = {}
        for resource, future in futures.items():
            needs = Right("DescribeConfigs", "topic", resource.name)
            entries = self._answer(future, f"reading the settings of topic {resource.name}", deadline, needs)
            found[resource.name] = {name: str(entry.value) for name, entry in entries.items()}
        return found

    def nodes(self, timeout_s: float | None = None) -> list[Address]:
        """Return the nodes that one node knows, ordered by id; ``timeout_s`` replaces the request time-out.

        Raises:
            BrokerUnreachable: no answer in time.
        """
        deadline = self._deadline(timeout_s)

        def ask() -> list[Address]:
            left_s = deadline.left_s(at_least=_LEAST_S, at_most=self._slice_s)
            known = self._client.list_topics(timeout=left_s).brokers
            return [Address(number, str(known[number].host), known[number].port) for number in sorted(known)]

        return self._retrying(ask, "asking for the nodes", deadline, Right("DescribeConfigs", "cluster"))

    def node_settings(self, timeout_s: float | None = None) -> Mapping[str, str]:
        """Return the settings of the first node; ``timeout_s`` replaces the request time-out.

        Raises:
            BrokerUnreachable: no answer in time.
            RightMissing: this client may not read them.
        """
        deadline = self._deadline(timeout_s)
        needs = Right("DescribeConfigs", "cluster")
        resource = ConfigResource(ResourceType.BROKER, str(self.nodes(timeout_s)[0].node))
        futures = self._client.describe_configs([resource], request_timeout=deadline.left_s(at_least=_LEAST_S))
        entries = self._answer(futures[resource], "reading a node's settings", deadline, needs)
        return {name: str(entry.value) for name, entry in entries.items() if entry.value is not None}

    def create(self, specs: Sequence[TopicSpec]) -> None:
        """See ``Admin.create``."""
        deadline = self._deadline()
        existing = self.topics([spec.name for spec in specs])
        for spec in specs:
            check_partitions(spec, existing.get(spec.name, spec.partitions))
        missing = [spec for spec in specs if spec.name not in existing]
        if missing:
            self._create(missing, deadline)
        self._until_led({spec.name: spec for spec in missing}, deadline)

    def delete(self, names: Sequence[str]) -> None:
        """See ``Admin.delete``."""
        deadline = self._deadline()
        if not names:
            return
        futures = self._client.delete_topics(list(names), request_timeout=deadline.left_s(at_least=_LEAST_S))
        for name, future in futures.items():
            self._settle(future, f"deleting topic {name}", deadline, fine=MISSING, needs=Right("Delete", "topic", name))
        while self.topics(names):
            self._pause(deadline)

    def bounds(self, topic: str, timeout_s: float | None = None) -> Mapping[int, Bounds]:
        """See ``Admin.bounds``; ``timeout_s`` replaces the request time-out."""
        deadline = self._deadline(timeout_s)
        partitions = self._partitions(topic, deadline)
        begins = self._offsets(topic, partitions, _EARLIEST, deadline)
        ends = self._offsets(topic, partitions, _LATEST, deadline)
        return {partition: Bounds(begins[partition], ends[partition]) for partition in partitions}

    def why_not_writable(self, topic: str) -> Sequence[str]:
        """See ``Admin.why_not_writable``."""
        deadline = self._deadline()

        def ask() -> dict[int, Copies]:
            found = self._client.list_topics(topic, timeout=deadline.left_s(at_least=_LEAST_S, at_most=self._slice_s))
            known = found.topics[topic].partitions.items()
            return {number: Copies(one.leader, one.replicas, one.isrs) for number, one in known}

        needs = Right("Describe", "topic", topic)
        partitions = self._retrying(ask, f"asking where {topic} is", deadline, needs)
        if not partitions:
            raise TopicMissing(f"topic {topic} does not exist")
        return why_not_writable(topic, partitions, self._least_in_sync(topic))

    def _least_in_sync(self, topic: str) -> int | None:
        """Return a topic's ``min.insync.replicas``; None if this client may not read it, or no node answers."""
        try:
            return int(self.configs([topic])[topic]["min.insync.replicas"])
        except (BrokerUnreachable, RightMissing, KeyError):
            return None

    def trim(self, topic: str, before: Mapping[int, int]) -> None:
        """See ``Admin.trim``."""
        deadline = self._deadline()
        unknown = before.keys() - set(self._partitions(topic, deadline))
        if unknown:
            raise TopicMissing(f"topic {topic} has no partition {min(unknown)}")
        if before:
            wanted = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
            futures = self._client.delete_records(wanted, request_timeout=deadline.left_s(at_least=_LEAST_S))
            for each, future in futures.items():
                what = f"trimming {topic}[{each.partition}] to {before[each.partition]}"
                self._settle(future, what, deadline, needs=Right("Delete", "topic", topic))

    def close(self) -> None:
        """See ``Admin.close``."""
        if self._guard.close():
            close_within(self._open.close, self._settings.close_timeout_s, "a Kafka admin client")

    def _create(self, specs: Sequence[TopicSpec], deadline: Deadline) -> None:
        for name, future in self._ask_to_create(specs, deadline).items():
            # Another process may have been faster; whether it made the same topic is checked later.
            self._settle(
                future,
                f"creating topic {name}",
                deadline,
                fine={KafkaError.TOPIC_ALREADY_EXISTS},
                needs=Right("Create", "topic", name),
            )

    def _ask_to_create(
        self, specs: Iterable[TopicSpec], deadline: Deadline, *, validate_only: bool = False
    ) -> Mapping[str, Future[None]]:
        new = [NewTopic(spec.name, spec.partitions, spec.replication or -1, config=dict(spec.config)) for spec in specs]
        left_s = deadline.left_s(at_least=_LEAST_S)
        return self._client.create_topics(new, validate_only=validate_only, request_timeout=left_s) if new else {}

    def _until_led(self, specs: Mapping[str, TopicSpec], deadline: Deadline) -> None:
        """Wait until every partition has a leader, so that the topics can be used at once."""
        while specs:
            known = self._leaders_of(specs, deadline)
            for name in specs.keys() & known.keys():
                check_partitions(specs[name], len(known[name]))
            if specs.keys() <= {name for name, leaders in known.items() if min(leaders.values()) >= 0}:
                return
            self._pause(deadline)

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the number of the node that leads a partition; None while none does.

        Raises:
            TopicMissing: no such topic or partition.
        """
        leaders = self._leaders(self._deadline(), topic).get(topic, {})
        if partition not in leaders:
            raise TopicMissing(f"topic {topic} has no partition {partition}")
        return leaders[partition] if leaders[partition] >= 0 else None

    def _partitions(self, topic: str, deadline: Deadline) -> list[int]:
        leaders = self._leaders(deadline, topic).get(topic)
        if leaders is None:
            raise TopicMissing(f"topic {topic} does not exist")
        return sorted(leaders)

    def _offsets(self, topic: str, partitions: Iterable[int], which: OffsetSpec, deadline: Deadline) -> dict[int, int]:
        wanted = {TopicPartition(topic, partition): which for partition in partitions}

        def ask() -> dict[int, int]:
            futures = self._client.list_offsets(wanted, request_timeout=deadline.left_s(at_least=_LEAST_S))
            found = {each.partition: self._result(future, deadline).offset for each, future in futures.items()}
            if min(found.values(), default=0) < 0:  # no error, but no offset either: a partition without a leader yet
                raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
            return found

        needs = Right("Describe", "topic", topic)
        return self._retrying(ask, f"looking up the offsets of {topic}", deadline, needs)

    def _leaders_of(self, names: Iterable[str], deadline: Deadline) -> dict[str, dict[int, int]]:
        """As `_leaders`, of these topics; asks by name for one that is not in the list: this client may not see it."""
        everything = self._leaders(deadline)
        found: dict[str, dict[int, int]] = {}
        for name in names:
            found |= {name: everything[name]} if name in everything else self._leaders(deadline, name)
        return found

    def _leaders(self, deadline: Deadline, topic: str | None = None) -> dict[str, dict[int, int]]:
        """Return, for all topics or one: partition to the id of its leader, -1 while it has none."""

        def ask() -> dict[str, dict[int, int]]:
            topics = self._client.list_topics(
                topic, timeout=deadline.left_s(at_least=_LEAST_S, at_most=self._slice_s)
            ).topics
            for found in topics.values():
                if found.error is not None and found.error.code() in FORBIDDEN:
                    raise KafkaException(found.error)
            return {
                name: {number: partition.leader for number, partition in found.partitions.items()}
                for name, found in topics.items()
                if found.partitions
            }

        needs = Right("Describe", "topic", topic or "TOPIC")
        return self._retrying(ask, f"asking for {topic or 'metadata'}", deadline, needs)

    def _settle(
        self, future: Future[T], what: str, deadline: Deadline, *, fine: Container[int] = (), needs: Right | None = None
    ) -> None:
        try:
            self._result(future, deadline)
        except KafkaException as error:
            if error.args[0].code() not in fine:
                raise self._failure(error.args[0], what, deadline, needs) from None

    def _answer(self, future: Future[T], what: str, deadline: Deadline, needs: Right) -> T:
        try:
            return self._result(future, deadline)
        except KafkaException as error:
            raise self._failure(error.args[0], what, deadline, needs) from None

    def _failure(self, error: KafkaError, what: str, deadline: Deadline, needs: Right | None) -> BrokerError:
        if error.code() in AWAY:
            return self._unreachable(deadline)
        return translate(error, what, self._settings, needs)

    def _result(self, future: Future[T], deadline: Deadline) -> T:
        try:
            return future.result(deadline.left_s() + _SLICE_S)
        except TimeoutError:
            raise self._unreachable(deadline) from None

    def _retrying(self, ask: Callable[[], T], what: str, deadline: Deadline, needs: Right) -> T:
        self._guard.check()
        silence = Deadline(_SILENCE_S)
        while True:
            try:
                answer = ask()
            except KafkaException as error:
                self._client.poll(0)
                self._errors.check()
                self._slice_s = min(2 * self._slice_s, _LONGEST_S)
                if error.args[0].code() not in AWAY and not error.args[0].retriable():
                    raise translate(error.args[0], what, self._settings, needs) from None
                if silence.passed() and self._errors.is_silent:
                    silence = Deadline(deadline.timeout_s)
                    self._break_silence()
            else:
                self._errors.worked()
                return answer
            self._pause(deadline)

    def _break_silence(self) -> None:
        """Find out why connections are closed without an error.

        Raises:
            BrokerError: the address speaks TLS, and this client's security protocol does not fit.
        """
        first = self._settings.bootstrap_servers.partition(",")[0].strip()
        self._is_tls = speaks_tls(first, _SILENCE_S)
        if self._is_tls and self._errors.closed >= _CLOSED:
            hint = silence_hint(self._settings.properties, is_tls=True)
            raise BrokerError(f"Kafka at {self._settings.bootstrap_servers} closes the connection: {hint}")

    def _pause(self, deadline: Deadline) -> None:
        if deadline.passed():
            raise self._unreachable(deadline)
        time.sleep(_PAUSE_S)

    def _unreachable(self, deadline: Deadline) -> BrokerUnreachable:
        # error_cb runs inside poll, so that the error can say why.
        self._client.poll(0)
        self._errors.check()
        return unreachable_error(self._settings, deadline.timeout_s, self._errors.last_error, is_tls=self._is_tls)

    def _deadline(self, timeout_s: float | None = None) -> Deadline:
        self._guard.check()
        return Deadline(self._timeout_s if timeout_s is None else timeout_s)
