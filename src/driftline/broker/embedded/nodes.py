"""Several nodes at once: start them side by side until they serve together, and end them together."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from driftline.broker.embedded import java, process
from driftline.broker.embedded.cluster import HOST
from driftline.broker.embedded.files import Report, quiet
from driftline.broker.embedded.jars import KAFKA_VERSION
from driftline.broker.embedded.node import Node
from driftline.broker.embedded.process import Launch
from driftline.broker.embedded.properties import Listener
from driftline.errors import EmbeddedBrokerError

_POLL_S = 0.05
_ALONE_S = 2.0


@dataclass(slots=True)
class Starter:
    """Starts nodes.

    Attributes:
        jars: returns the class path; called before the first start.
        properties: settings of Kafka that add to or replace ours.
        listeners: further addresses for clients.
        report: receives one line for each step.
    """

    jars: Callable[[], Sequence[Path]]
    properties: Mapping[str, str] = field(default_factory=dict)
    listeners: Sequence[Listener] = ()
    report: Report = quiet
    _class_path: Sequence[Path] | None = None
    _cache: Path | None = None
    _started: dict[Node, Launch] = field(default_factory=dict)

    def bring_up(self, nodes: Sequence[Node], deadline_s: float) -> None:
        """Start the nodes that do not run, and return when each of ``nodes`` knows the others.

        Raises:
            EmbeddedBrokerError: a node did not start by ``deadline_s`` of ``time.monotonic``. The nodes that were
                started here are ended again.
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
        """Start the JVMs of these nodes; does not wait for them."""
        if not nodes:
            return {}
        if self._class_path is None:
            self._class_path = self.jars()
            self._cache = java.find_cache(self._class_path)
        self.report(f"starting Apache Kafka {KAFKA_VERSION} at {_addresses(nodes)}")
        with ThreadPoolExecutor(len(nodes)) as pool:
            # Formatting a node takes a JVM of its own and a second.
            list(pool.map(partial(self._prepare, self._class_path), nodes))
        return {node: self._launch(self._class_path, node) for node in nodes}

    def _prepare(self, class_path: Sequence[Path], node: Node) -> None:
        node.prepare(class_path, java.cache_options(self._cache), self.properties, self.listeners)

    def _launch(self, class_path: Sequence[Path], node: Node) -> Launch:
        launch = node.launch(class_path, java.cache_options(self._cache), aot=self._cache is not None)
        self._started[node] = launch
        return launch

    def _refuse_to_repeat(self, died: Iterable[Node]) -> None:
        """Return if these nodes may be started again: they ran before, or an AOT cache may have killed them."""
        for node in died:
            launch = self._started.get(node)
            if launch is not None and not launch.aot:
                raise EmbeddedBrokerError(f"{node.title} ended while it started.{node.log_tail()}")
            if launch is not None:
                # Only the cache is not needed: without it the start works, or the log explains the failure.
                self._drop_cache("the broker ended while it started with it")

    def _check_caches(self) -> None:
        for node, launch in self._started.items():
            if launch.aot and node.refused_cache():
                self._drop_cache("the JVM refused it")
                node.note_without_cache(launch)

    def _drop_cache(self, reason: str) -> None:
        if self._cache is not None:
            self.report(f"the ahead-of-time cache is dropped: {reason}; a new one will be made")
            java.drop_cache(self._cache)
            self._cache = None


def _addresses(nodes: Sequence[Node]) -> str:
    ports = [str(node.address.broker_port) for node in nodes]
    return f"{HOST}:{ports[0]}" if len(ports) == 1 else f"{HOST}, ports {', '.join(ports)}"


def await_ready(launches: Mapping[Node, Launch], deadline_s: float) -> list[Node]:
    """Wait until each node knows all of these; return the nodes whose process died before that.

    Raises:
        EmbeddedBrokerError: ``deadline_s`` of ``time.monotonic`` passed.
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


def end(nodes: Sequence[Node], timeout_s: float) -> bool:
    """End the processes of ``nodes``: by SIGTERM, after ``timeout_s`` seconds by SIGKILL; False if none was running.

    The last of several nodes gets less time: no other node is left to hand its work to, and it would try for long.

    Raises:
        EmbeddedBrokerError: a process did not end even after SIGKILL.
    """
    ended = [node for node in nodes if node.running()]
    for node in ended:
        node.ask_to_end()
    deadline_s = time.monotonic() + timeout_s
    while (living := [node for node in ended if node.running()]) and time.monotonic() < deadline_s:
        if len(living) == 1 and len(living[0].cluster.nodes) > 1:
            deadline_s = min(deadline_s, time.monotonic() + _ALONE_S)
        time.sleep(_POLL_S)
    for node in nodes:
        node.kill()
        node.forget()
    return bool(ended)
