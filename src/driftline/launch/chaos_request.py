"""From the script of a command line to faults that can happen to what the command starts."""

from collections.abc import Sequence

from driftline.broker.embedded import EmbeddedBroker
from driftline.broker.kafka import KafkaBroker
from driftline.config.connection import Connection
from driftline.config.problems import Problems
from driftline.config.run_settings import RunSettings
from driftline.launch.chaos_nodes import Nodes
from driftline.launch.faults import Fault, read_script, target_problems
from driftline.runs.naming import unused_names

OPTION = "--chaos"


def read_faults(
    script: str | None, connection: Connection, settings: RunSettings, servers: int, problems: Problems
) -> tuple[Fault, ...]:
    """Read the script of ``driftline train``; what cannot happen in the run that was asked for is a problem."""
    if script is None:
        return ()
    faults, misread = read_script(script)
    away = Problems()
    nodes = _nodes(connection, faults, away)
    found = target_problems(
        faults,
        servers=unused_names("server", servers, ()),
        workers=unused_names("worker", settings.workers, ()),
        nodes=nodes,
        last=settings.steps,
    )
    for problem in [*misread, *away.found, *found]:
        problems.add(f"{OPTION}: {problem}")
    return faults


def _nodes(connection: Connection, faults: Sequence[Fault], problems: Problems) -> list[str]:
    """Name the nodes that the command will start."""
    if connection.bootstrap_servers is not None or not any(fault.needs_broker for fault in faults):
        return []
    embedded = EmbeddedBroker(connection.home)
    if embedded.status().running:
        problems.add(
            f"the broker of {connection.home} runs already, perhaps for others, and only what is started here may be "
            f"disturbed; stop it first: driftline broker stop --home {connection.home}"
        )
    count = len(embedded.nodes) or connection.nodes or 1
    return [f"broker-{number}" for number in range(1, count + 1)]


def nodes_to_disturb(connection: Connection, broker: KafkaBroker, run: str, faults: Sequence[Fault]) -> Nodes | None:
    """Return the nodes that were started, if a fault happens to one of them."""
    if not any(fault.needs_broker for fault in faults):
        return None
    return Nodes(EmbeddedBroker(connection.home), broker, run)
