"""Apache Kafka on this machine, without Docker and without an installed Java."""

from driftline.broker.embedded.broker import EmbeddedBroker
from driftline.broker.embedded.status import BrokerStatus, NodeStatus

__all__ = ["BrokerStatus", "EmbeddedBroker", "NodeStatus"]
