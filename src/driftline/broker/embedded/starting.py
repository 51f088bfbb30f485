"""Starting nodes: those of a broker that do not run, side by side, until they serve together."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from driftline.broker.embedded import aot, process
from driftline.broker.embedded.ending import end
from driftline.broker.embedded.lockfile import KAFKA_VERSION
from driftline.broker.embedded.node import Node
from driftline.broker.embedded.ports import HOST
from driftline.broker.embedded.properties import Listener
from driftline.broker.embedded.report import Report, quiet
from driftline.broker.embedded.state import Launch
from driftline.errors import EmbeddedBrokerError

_POLL_S = 0.05


@dataclass(slots=True)
class Starter:
    """Starts nodes.

    Attributes:
        jars: called when the first node is to be started.
        properties: settings of Kafka beside ours.
        listeners: beside the plain one.
        report: told what is done.
    """

    jars: Callable[[], Sequence[Path]]
    properties: Mapping[str, str] = field(default_factory=dict)
    listeners: Sequence[Listener] = ()
    report: Report = quiet
    _class_path: Sequence[Path] | None = None
    _cache: Path | None = None
    _started: dict[Node, Launch] = field(default_factory=dict)

    def bring_up(self, nodes: Sequence[Node], deadline_s: float) -> None:
        """Start those of ``nodes`` that do not run, and return once each of ``nodes`` knows the others.

        Raises:
            EmbeddedBrokerError: one did not start, or not by ``deadline_s`` on the monotonic clock. What was started
                here is ended again.
        """
        try:
            launches = {node: launch for node in nodes if (launch := node.running())}
            launches |= self.launch([node for node in nodes if node not in launches])
            while died := await_ready(launches, deadline_s):
                self._refuse_to_repeat(died)
                launches |= self.launch(died)
            self._check_caches()
        except BaseException:
            end(list(self._started), 1.0)
            raise

    def launch(self, nodes: Sequence[Node]) -> dict[Node, Launch]:
        """Start these nodes' JVMs; does not wait for them."""
        if not nodes:
            return {}
        if self._class_path is None:
            self._class_path = self.jars()
            self._cache = aot.find(self._class_path)
        self.report(f"starting Apache Kafka {KAFKA_VERSION} at {_addresses(nodes)}")
        with ThreadPoolExecutor(len(nodes)) as pool:
            # Formatting takes a JVM of its own, a second each.
            list(pool.map(partial(self._prepare, self._class_path), nodes))
        return {node: self._launch(self._class_path, node) for node in nodes}

    def _prepare(self, class_path: Sequence[Path], node: Node) -> None:
        node.prepare(class_path, aot.options(self._cache), self.properties, self.listeners)

    def _launch(self, class_path: Sequence[Path], node: Node) -> Launch:
        launch = node.launch(class_path, aot.options(self._cache), aot=self._cache is not None)
        self._started[node] = launch
        return launch

    def _refuse_to_repeat(self, died: Iterable[Node]) -> None:
        """Let a node be started again that ran before us, or that an ahead-of-time cache may have killed."""
        for node in died:
            launch = self._started.get(node)
            if launch is not None and not launch.aot:
                raise EmbeddedBrokerError(f"{node.title} ended while it started.{node.log_tail()}")
            if launch is not None:
                # The one part that is not needed: without it the failure is gone, or is explained by the log.
                self._drop_cache("the broker ended while it started with it")

    def _check_caches(self) -> None:
        for node, launch in self._started.items():
            if launch.aot and node.refused_cache():
                self._drop_cache("the JVM refused it")
                node.note_without_cache(launch)

    def _drop_cache(self, reason: str) -> None:
        if self._cache is not None:
            self.report(f"the ahead-of-time cache is dropped, {reason}; another one will be made")
            aot.drop(self._cache)
            self._cache = None


def _addresses(nodes: Sequence[Node]) -> str:
    ports = [str(node.address.broker_port) for node in nodes]
    return f"{HOST}:{ports[0]}" if len(ports) == 1 else f"{HOST}, ports {', '.join(ports)}"


def await_ready(launches: Mapping[Node, Launch], deadline_s: float) -> list[Node]:
    """Wait until each node knows all of these; returns those whose process died before that.

    Raises:
        EmbeddedBrokerError: ``deadline_s`` passed on the monotonic clock.
    """
    ids = {node.address.node_id for node in launches}
    waiting = list(launches)
    while waiting := [node for node in waiting if not node.is_ready(ids)]:
        if died := [node for node in launches if not process.is_running(launches[node])]:
            return died
        if time.monotonic() >= deadline_s:
            raise EmbeddedBrokerError(_too_late(waiting[0], launches[waiting[0]], ids))
        time.sleep(_POLL_S)
    return []


def _too_late(node: Node, launch: Launch, ids: Collection[int]) -> str:
    others = "" if len(ids) == 1 else f" as one of {len(ids)} nodes"
    return (
        f"{node.title} (process {launch.pid}) did not answer a metadata request at "
        f"{HOST}:{node.address.broker_port}{others} in time.{node.log_tail()}"
    )
