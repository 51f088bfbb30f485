"""Apache Kafka on this machine, without Docker and without an installed Java.

``EmbeddedBroker(home).start()`` starts it or finds it running; ``status()`` describes it; ``stop()`` ends it. Each home
has one broker. All processes that use the home share it, and it ends with the last of them unless it is kept.

    broker      the public object                 cluster     number of nodes and their ports
    nodes       start and end several nodes       node        one node: folder, process, log
    process     identify and signal a JVM         boot        becomes the JVM, with its watchdog
    java        command line, AOT cache           prepare     makes that cache
    jars        fetches and checks Kafka          properties  settings of Kafka, pure
    status      state of broker and nodes         probe       is a node ready? who is controller?
    files       where files are, file locks       relock      for developers: a new lock file

Imports ``errors`` and, for the rehearsal of the cache only, ``broker.port`` and ``broker.kafka``. Never here: knowledge
of runs and topics, or a Kafka client on the way to a start.
"""

from driftline.broker.embedded.broker import EmbeddedBroker
from driftline.broker.embedded.status import BrokerStatus, NodeStatus

__all__ = ["BrokerStatus", "EmbeddedBroker", "NodeStatus"]
