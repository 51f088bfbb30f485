"""Apache Kafka on this machine, without Docker and without an installed Java."""

from driftline.broker.embedded.broker import BrokerStatus, EmbeddedBroker

__all__ = ["BrokerStatus", "EmbeddedBroker"]
