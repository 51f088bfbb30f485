"""What a throw-away broker is put through while its JVM records: the requests that every run begins with."""

import contextlib
import time

from driftline.broker.port import Assigned, Broker, Reader, Start, TopicSpec
from driftline.errors import BrokerError, TopicMissing

_TOPIC, _COMPACTED = "rehearsal", "rehearsal-compacted"
_RECORDS, _RECORD_BYTES = 200, 64 * 1024
_TIMEOUT_S = 30.0


def rehearse(bootstrap_servers: str) -> None:
    """Create topics, write, read, join a group, delete; an error ends it early, since it is only practice."""
    from driftline.broker.kafka import KafkaBroker, KafkaSettings  # noqa: PLC0415 - a JVM can be started without it

    with contextlib.suppress(BrokerError):
        _practise(KafkaBroker(KafkaSettings(bootstrap_servers)))


def _practise(broker: Broker) -> None:
    specs = [TopicSpec(_TOPIC, 2), TopicSpec(_COMPACTED, 1, {"cleanup.policy": "compact"})]
    with contextlib.closing(broker.admin()) as admin:
        admin.create(specs)
        with contextlib.closing(broker.producer()) as producer:
            for number in range(_RECORDS):
                producer.send(_TOPIC, number % 2, bytes(_RECORD_BYTES), key=b"%d" % number)
                producer.send(_COMPACTED, 0, bytes(100), key=b"%d" % (number % 10))
                producer.flush(_TIMEOUT_S)
        with contextlib.closing(broker.reader()) as reader:
            _read(reader)
        _join(broker)
        admin.bounds(_TOPIC)
        admin.delete([spec.name for spec in specs])


def _read(reader: Reader) -> None:
    deadline_s = time.monotonic() + _TIMEOUT_S
    with contextlib.suppress(TopicMissing):
        reader.read(_TOPIC, 0, Start.BEGINNING)
        reader.read(_COMPACTED, 0, Start.BEGINNING)
    seen = 0
    while seen < _RECORDS and time.monotonic() < deadline_s:
        seen += reader.poll(0.1) is not None


def _join(broker: Broker) -> None:
    deadline_s = time.monotonic() + _TIMEOUT_S
    with contextlib.closing(broker.group_reader(_TOPIC, "rehearsal", "member", Start.END)) as member:
        while not isinstance(member.poll(0.1), Assigned) and time.monotonic() < deadline_s:
            pass
