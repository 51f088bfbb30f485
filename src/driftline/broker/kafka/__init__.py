"""The seam to Kafka, implemented with librdkafka: the only package that imports ``confluent_kafka``.

``KafkaBroker(KafkaSettings(...))`` makes producers, readers, group readers and admin clients of one cluster;
``survey.KafkaSurvey`` answers the questions of ``driftline doctor``.

Imports ``broker.port``, ``broker.clients``, ``broker.topic_check`` and ``errors``. Never here: knowledge of runs, or an
error of librdkafka that reaches a caller: ``errors`` translates all of them into messages that say what to do.
"""

from driftline.broker.kafka.admin import KafkaAdmin
from driftline.broker.kafka.group import KafkaGroupReader
from driftline.broker.kafka.producer import KafkaProducer
from driftline.broker.kafka.reader import KafkaReader
from driftline.broker.kafka.settings import KafkaSettings
from driftline.broker.port import Start

__all__ = ["KafkaBroker", "KafkaSettings"]


class KafkaBroker:
    """Implements ``Broker`` for one Kafka cluster; holds no connection itself."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings

    def producer(self) -> KafkaProducer:
        """See ``Broker.producer``."""
        return KafkaProducer(self._settings)

    def reader(self) -> KafkaReader:
        """See ``Broker.reader``."""
        return KafkaReader(self._settings)

    def group_reader(self, topic: str, group: str, member: str, start: Start) -> KafkaGroupReader:
        """See ``Broker.group_reader``."""
        return KafkaGroupReader(self._settings, topic, group, member, start)

    def admin(self) -> KafkaAdmin:
        """See ``Broker.admin``."""
        return KafkaAdmin(self._settings)

    def check(self, timeout_s: float) -> None:
        """See ``Broker.check``."""
        admin = KafkaAdmin(self._settings, timeout_s)
        try:
            admin.topics()
        finally:
            admin.close()
