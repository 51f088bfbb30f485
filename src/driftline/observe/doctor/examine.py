"""Gathers facts about a Kafka for `driftline doctor`, and leaves it as it was."""

import socket
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.kafka.admin import Address
from driftline.broker.kafka.survey import KafkaSurvey
from driftline.broker.port import Broker, Record, Start, TopicSpec
from driftline.broker.topic_check import topic_differences
from driftline.broker.topics import PREFIX, run_topics
from driftline.errors import BrokerError, RightMissing
from driftline.observe.doctor.findings import Facts
from driftline.observe.doctor.rights import GROUPS

CONNECT_S = 3.0
PROBE_S = 10.0

T = TypeVar("T")


def examine(settings: KafkaSettings, run: str, partitions: int, *, timeout_s: float) -> Facts:
    """Gather the facts about a cluster, and about one run of it if ``run`` is not empty.

    Raises:
        BrokerError: Kafka does not answer, or refuses the connection; says why.
    """
    broker = KafkaBroker(settings)
    began_s = time.monotonic()
    broker.check(timeout_s)
    answer_s = time.monotonic() - began_s
    with KafkaSurvey(settings) as survey:
        addresses = survey.nodes()
        node_settings, settings_problem = _attempt(survey.node_settings)
        ahead_s, clock_problem = _attempt(lambda: clock_ahead_s(broker, time.time))
        facts = Facts(
            answer_s=answer_s,
            client=survey.client_version(),
            addresses=addresses,
            unreachable={one: why for one in addresses if (why := why_unreachable(one))},
            settings=node_settings,
            settings_problem=settings_problem,
            clock_ahead_s=ahead_s,
            clock_problem=clock_problem,
        )
        return _with_run(facts, survey, run_topics(run, partitions), run) if run else facts


def _with_run(facts: Facts, survey: KafkaSurvey, specs: Sequence[TopicSpec], run: str) -> Facts:
    topics = survey.topic_operations([spec.name for spec in specs])
    groups = survey.group_operations([f"{run}.{group}" for group in GROUPS])
    operations = {f"topic {name}": may for name, may in topics.items()}
    operations |= {f"group {name}": may for name, may in groups.items()}
    visible = sorted(name for name, may in topics.items() if may)
    configs, _ = _attempt(lambda: survey.configs(visible))
    return replace(
        facts,
        run=run,
        operations=operations,
        creation_problems=survey.creation_problems([spec for spec in specs if spec.name not in topics]),
        differences=topic_differences(specs, survey.topics(visible), configs or {}),
    )


def _attempt(ask: Callable[[], T]) -> tuple[T | None, str]:
    """Return an answer, or the reason that there is none."""
    try:
        return ask(), ""
    except BrokerError as error:
        return None, str(error)


def why_unreachable(address: Address) -> str:
    """Return why a node takes no connections at its advertised address; empty if it does."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError:
        return "that name does not resolve from here"
    try:
        socket.create_connection((address.host, address.port), timeout=CONNECT_S).close()
    except OSError as error:
        return f"no connection is possible there ({found[0][4][0]}: {error.strerror or error})"
    return ""


def clock_ahead_s(broker: Broker, now_s: Callable[[], float]) -> float:
    """Return how many seconds this machine's clock is ahead of Kafka's; creates a topic for it, and deletes it again.

    Args:
        broker: of the clock that stamps records.
        now_s: this machine's clock, seconds since the epoch.

    Raises:
        BrokerError: this client may not create, write or read a topic.
    """
    topic = f"{PREFIX}-doctor-{uuid.uuid4().hex[:12]}"
    admin = broker.admin()
    try:
        admin.create([TopicSpec(topic, 1, {"message.timestamp.type": "LogAppendTime"})])
        try:
            return _stamp(broker, topic, now_s)
        finally:
            admin.delete([topic])
    except RightMissing:
        raise BrokerError("that takes a topic, which this client may not make, use and delete") from None
    finally:
        admin.close()


def _stamp(broker: Broker, topic: str, now_s: Callable[[], float]) -> float:
    producer, reader = broker.producer(), broker.reader()
    try:
        before_s = now_s()
        producer.send(topic, 0, b"what time is it?")
        if producer.flush(PROBE_S):
            raise BrokerError(f"a record for {topic} was not acknowledged within {PROBE_S:g} s")
        after_s = now_s()
        reader.read(topic, 0, Start.BEGINNING)
        deadline_s = time.monotonic() + PROBE_S
        while time.monotonic() < deadline_s:
            record = reader.poll(0.1)
            if isinstance(record, Record):
                # The stamp lies between before and after; their middle is wrong by half of that at most.
                return (before_s + after_s) / 2 - record.timestamp_ms / 1000
        raise BrokerError(f"the record of {topic} did not come back within {PROBE_S:g} s")
    finally:
        producer.close()
        reader.close()
