"""What can be known of a home's broker by looking."""

from dataclasses import dataclass
from pathlib import Path

from driftline.broker.embedded import state
from driftline.broker.embedded.lockfile import KAFKA_VERSION
from driftline.broker.embedded.node import Node
from driftline.broker.embedded.paths import Layout


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """What is known of the broker of one home.

    Attributes:
        state: ``ready``, ``starting`` (a process that does not answer yet), ``stopped``, or ``died`` (it was started
            and its process is gone without a stop; a start repairs that).
        bootstrap_servers: its address, kept over restarts; None before the first start.
        pid: process id of the JVM, None if there is none.
        keep: it runs on when nobody uses it.
        aot: it was started with an ahead-of-time cache.
        home: ``$DRIFTLINE_HOME``.
        log: where its JVM writes.
        kafka: version of Apache Kafka.
    """

    state: str
    bootstrap_servers: str | None
    pid: int | None
    keep: bool
    aot: bool
    home: Path
    log: Path
    kafka: str = KAFKA_VERSION

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self.pid is not None


def look(home: Path, layout: Layout) -> BrokerStatus:
    """Look, and change nothing."""
    cluster = state.load_cluster(layout.cluster_file)
    if cluster is None:
        log = layout.node_dir(1) / "broker.log"
        return BrokerStatus("stopped", None, None, keep=False, aot=False, home=home, log=log)
    node = Node(layout, cluster, cluster.nodes[0])
    launch = node.running()
    return BrokerStatus(
        state=node.condition(),
        bootstrap_servers=cluster.bootstrap_servers,
        pid=launch.pid if launch else None,
        keep=layout.keep_file.exists(),
        aot=bool(launch and launch.aot),
        home=home,
        log=node.log,
    )
