"""The questions of `driftline doctor` to a cluster: nodes, limits, and rights of this client. Changes nothing."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Self

import confluent_kafka
from confluent_kafka import KafkaException, TopicCollection

from driftline.broker.kafka.admin import KafkaAdmin
from driftline.broker.kafka.errors import FORBIDDEN, Right
from driftline.broker.port import TopicSpec
from driftline.errors import BrokerError


class KafkaSurvey(KafkaAdmin):
    """An admin client with further questions; each ends within the request time-out. A context manager."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def client_version() -> str:
        """Return the versions of librdkafka and of its Python binding."""
        return f"librdkafka {confluent_kafka.libversion()[0]}, confluent-kafka {confluent_kafka.version()[0]}"

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
        deadline = self._deadline()
        problems = {}
        for name, future in self._ask_to_create(specs, deadline, validate_only=True).items():
            try:
                self._answer(future, f"creating topic {name}", deadline, Right("Create", "topic", name))
            except BrokerError as error:
                problems[name] = str(error)
        return problems

    def _operations(self, futures: Mapping[str, "Future[Any]"]) -> dict[str, frozenset[str]]:
        deadline = self._deadline()
        found: dict[str, frozenset[str]] = {}
        for name, future in futures.items():
            try:
                operations = self._result(future, deadline).authorized_operations or ()
                found[name] = frozenset(_name_of(one.name) for one in operations)
            except KafkaException as error:
                if error.args[0].code() in FORBIDDEN:
                    found[name] = frozenset()
        return found


def _name_of(operation: str) -> str:
    """Return the name of an operation in access rules: ``DescribeConfigs`` for ``DESCRIBE_CONFIGS``."""
    return "".join(part.capitalize() for part in operation.split("_"))
