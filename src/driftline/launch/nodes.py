"""The nodes of this home's broker as targets of faults."""

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from driftline.broker.embedded import EmbeddedBroker
from driftline.broker.embedded.process import Launch
from driftline.broker.kafka import KafkaBroker
from driftline.broker.topics import Stream, topic_name
from driftline.config.connection import Connection
from driftline.config.problems import Problems
from driftline.config.run_settings import RunSettings
from driftline.errors import BrokerError, EmbeddedBrokerError
from driftline.launch.faults import BROKERS, CONTROLLER, EVERYTHING, LEADER, Fault, read_script, target_problems
from driftline.runs.naming import unused_names

OPTION: Final = "--chaos"

END_WAIT_S: Final = 30.0
"""Seconds that a node may take to end after SIGTERM, before it is killed."""

_POLL_S: Final = 0.05


def read_faults(
    script: str | None, connection: Connection, settings: RunSettings, servers: int, problems: Problems
) -> tuple[Fault, ...]:
    """Read the script of ``driftline train``; a fault that cannot happen in this run is a problem."""
    if script is None:
        return ()
    faults, found = read_script(script)
    nodes = _planned_nodes(connection, faults, found)
    found += target_problems(
        faults,
        servers=unused_names("server", servers, ()),
        workers=unused_names("worker", settings.workers, ()),
        nodes=nodes,
        last=settings.steps,
    )
    for problem in found:
        problems.add(f"{OPTION}: {problem}")
    return faults


def _planned_nodes(connection: Connection, faults: Sequence[Fault], problems: list[str]) -> list[str]:
    """Name the nodes that the command will start; a broker that runs already is a problem."""
    if connection.bootstrap_servers is not None or not any(fault.needs_broker for fault in faults):
        return []
    embedded = EmbeddedBroker(connection.home)
    if embedded.status().running:
        problems.append(
            f"the broker of {connection.home} runs already, perhaps for other commands, and faults may only happen to "
            f"what this command starts; stop it first: driftline broker stop --home {connection.home}"
        )
    return [_name(number + 1) for number in range(len(embedded.nodes) or connection.nodes or 1)]


def nodes_for_faults(connection: Connection, broker: KafkaBroker, run: str, faults: Sequence[Fault]) -> "Nodes | None":
    """Return the nodes that were started, if a fault happens to one of them."""
    if not any(fault.needs_broker for fault in faults):
        return None
    return Nodes(EmbeddedBroker(connection.home), broker, run)


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes that faults may happen to.

    Attributes:
        embedded: the broker.
        broker: its clients.
        run: its ledger decides which node is the leader.
        hit: name → the process that a fault ended last. A node may have been started again since, so the name alone
            does not identify it.
    """

    embedded: EmbeddedBroker
    broker: KafkaBroker
    run: str
    hit: dict[str, Launch] = field(default_factory=dict)

    def find(self, target: str) -> list[str]:
        """Return the nodes that a target names now: the ledger's leader, the controller, one by its number, or all."""
        if target == LEADER:
            return [] if (leader := self._leader()) is None else [_name(leader)]
        if target == CONTROLLER:
            return [_name(one.node) for one in self.embedded.status().nodes if one.controller]
        return [name for name in map(_name, self.embedded.nodes) if target in (name, BROKERS, EVERYTHING)]

    def _leader(self) -> int | None:
        admin = self.broker.admin()
        try:
            return admin.leader(topic_name(self.run, Stream.LEDGER), 0)
        except BrokerError:  # there is no leader at the moment
            return None
        finally:
            admin.close()

    def signal(self, name: str, number: signal.Signals) -> bool:
        """Signal one; return whether it was running."""
        launch = self.embedded.signal(_number(name), number)
        if launch is not None and number in (signal.SIGKILL, signal.SIGTERM):
            self.hit[name] = launch
        return launch is not None

    def revive(self, names: Sequence[str]) -> None:
        """Start nodes that have ended, or that will end soon because of SIGTERM.

        A node that another fault ends meanwhile is left to the thread that undoes that fault.

        Raises:
            EmbeddedBrokerError: a node does not start.
        """
        ended = {name: self.hit[name] for name in names}
        self._wait_for_ends(ended)
        while left := [name for name in names if self.hit[name] == ended[name]]:
            before = dict(self.hit)
            try:
                self._start(left)
            except EmbeddedBrokerError:
                if self.hit == before:
                    raise
            else:
                return

    def _wait_for_ends(self, ending: dict[str, Launch]) -> None:
        deadline_s = time.monotonic() + END_WAIT_S
        while left := [name for name in ending if self.embedded.running(_number(name)) == ending[name]]:
            if time.monotonic() >= deadline_s:
                for name in left:
                    self.embedded.signal(_number(name), signal.SIGKILL)
            time.sleep(_POLL_S)

    def _start(self, names: Sequence[str]) -> None:
        if len(names) == len(self.embedded.nodes):
            was_used = self.embedded.is_used
            self.embedded.start()  # together: no node is ready before a majority of them runs
            if not was_used:
                self.embedded.release()  # else it would outlive the command that uses it
            return
        for name in names:
            self.embedded.revive(_number(name))


def _name(number: int) -> str:
    return f"broker-{number}"


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])
