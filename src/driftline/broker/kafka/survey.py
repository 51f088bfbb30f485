"""The questions of `driftline doctor` to a cluster: nodes, limits, and rights of this client. Changes nothing."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import confluent_kafka
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from driftline.broker.kafka.errors import FORBIDDEN, ClientErrors, Right, translate
from driftline.broker.kafka.settings import KafkaSettings
from driftline.broker.port import TopicSpec
from driftline.errors import BrokerError

T = TypeVar("T")
_SLACK_S = 1.0


@dataclass(frozen=True, slots=True)
class Address:
    """The address that a node advertises."""

    node: int
    host: str
    port: int


class KafkaSurvey:
    """Asks one cluster; every question ends within the request time-out. A context manager."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._timeout_s = settings.request_timeout_s
        self._errors = ClientErrors(settings)
        self._open = ExitStack()
        properties: dict[str, Any] = {**settings.common(), "error_cb": self._errors.on_error}
        self._client = self._open.enter_context(AdminClient(properties))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @staticmethod
    def client_version() -> str:
        """Return the versions of librdkafka and of its Python binding."""
        return f"librdkafka {confluent_kafka.libversion()[0]}, confluent-kafka {confluent_kafka.version()[0]}"

    def addresses(self) -> list[Address]:
        """Return the addresses that the nodes advertise, ordered by node id.

        Raises:
            BrokerError: the cluster does not answer.
        """
        try:
            found = self._client.list_topics(timeout=self._timeout_s)
        except KafkaException as error:
            raise translate(error.args[0], "asking for the nodes", self._settings) from None
        return sorted(
            (Address(one.id, str(one.host), one.port) for one in found.brokers.values()), key=lambda one: one.node
        )

    def node_settings(self, node: int) -> Mapping[str, str]:
        """Return the settings of a node.

        Raises:
            RightMissing: this client may not read them.
        """
        resource = ConfigResource(ResourceType.BROKER, str(node))
        futures = self._client.describe_configs([resource], request_timeout=self._timeout_s)
        entries = self._answer(futures[resource], "reading a node's settings", Right("DescribeConfigs", "cluster"))
        return {name: str(entry.value) for name, entry in entries.items() if entry.value is not None}

    def topic_operations(self, names: Sequence[str]) -> dict[str, frozenset[str]]:
        """Return the operations that this client may do on each existing topic; none on one that it may not see."""
        futures = self._client.describe_topics(
            TopicCollection(list(names)), include_authorized_operations=True, request_timeout=self._timeout_s
        )
        return self._operations(futures)

    def group_operations(self, names: Sequence[str]) -> dict[str, frozenset[str]]:
        """Return the operations that this client may do on each consumer group, existing or not."""
        futures = self._client.describe_consumer_groups(
            list(names), include_authorized_operations=True, request_timeout=self._timeout_s
        )
        return self._operations(futures)

    def creation_problems(self, specs: Iterable[TopicSpec]) -> dict[str, str]:
        """Return why this client could not create missing topics; Kafka only checks and creates nothing."""
        new = [NewTopic(spec.name, spec.partitions, spec.replication or -1, config=dict(spec.config)) for spec in specs]
        if not new:
            return {}
        futures = self._client.create_topics(new, validate_only=True, request_timeout=self._timeout_s)
        problems = {}
        for name, future in futures.items():
            try:
                self._answer(future, f"creating topic {name}", Right("Create", "topic", name))
            except BrokerError as error:
                problems[name] = str(error)
        return problems

    def _operations(self, futures: Mapping[str, "Future[Any]"]) -> dict[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}
        for name, future in futures.items():
            try:
                operations = future.result(self._timeout_s + _SLACK_S).authorized_operations or ()
                found[name] = frozenset(_as_named(one.name) for one in operations)
            except KafkaException as error:
                if error.args[0].code() in FORBIDDEN:
                    found[name] = frozenset()
        return found

    def _answer(self, future: "Future[T]", what: str, needs: Right) -> T:
        try:
            return future.result(self._timeout_s + _SLACK_S)
        except KafkaException as error:
            raise translate(error.args[0], what, self._settings, needs) from None


def _as_named(operation: str) -> str:
    """Return the name of an operation in access rules: ``DescribeConfigs`` for ``DESCRIBE_CONFIGS``."""
    return "".join(part.capitalize() for part in operation.split("_"))
