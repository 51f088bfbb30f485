"""docker-compose.yml as a project of its own on an engine, and what it looks like from this machine."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.compose.description import FILE
from tests.compose.engine import Engine, said
from tests.support import ROOT

PROJECT = "driftline-compose-test"
DRIFTLINE = (sys.executable, "-m", "driftline")


CONNECT_S = "60"
"""How long Kafka may take to answer a program on this machine: six processes of the stack start beside it."""


@dataclass(frozen=True, slots=True)
class Container:
    """A container as the engine sees it; ``code`` is None while it runs."""

    name: str
    service: str
    code: int | None
    health: str


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(slots=True)
class Stack:
    """The project. ``variables`` are what a user would write into ``.env``."""

    engine: Engine
    variables: dict[str, str]
    port: int = field(default_factory=free_port)

    def compose(self, *words: str, timeout_s: float = 600.0) -> str:
        """Run a command of Compose and return what it printed."""
        command = [*self.engine.compose, "--file", str(FILE), "--project-name", PROJECT, *words]
        return said(command, self._environment(), timeout_s)

    def containers(self, *services: str) -> list[Container]:
        """Return the containers of some services, those that have ended included; of all without a name."""
        names = self.engine.docker(
            "ps", "--all", "--quiet", "--filter", f"label=com.docker.compose.project={PROJECT}"
        ).split()
        found = json.loads(self.engine.docker("inspect", *names)) if names else []
        return [one for one in map(_container, found) if one.service in services or not services]

    def driftline(self, *words: str, timeout_s: float = 120.0) -> str:
        """Run a command on this machine, through Kafka's listener for it."""
        return said([*DRIFTLINE, *words], self.host_environment(), timeout_s)

    def asked(self, *words: str) -> str:
        """Run a command on this machine that may well fail, and return what it printed on stdout."""
        done = subprocess.run(
            [*DRIFTLINE, *words], env=self.host_environment(), capture_output=True, text=True, timeout=120, check=False
        )
        return done.stdout

    def status(self, run: str) -> dict[str, Any]:
        """Return where a run stands, as this machine sees it."""
        found: dict[str, Any] = json.loads(self.driftline("status", run, "--json").splitlines()[-1])
        return found

    def worker_on_host(self, *words: str) -> "subprocess.Popen[str]":
        """Start a worker on this machine."""
        return subprocess.Popen(
            [*DRIFTLINE, "worker", *words], env=self.host_environment(), cwd=ROOT, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def host_environment(self) -> dict[str, str]:
        """Return the environment of a program on this machine that uses this Kafka and no file of settings."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith("DRIFTLINE_")}
        return {
            **plain,
            "DRIFTLINE_BOOTSTRAP_SERVERS": f"localhost:{self.port}",
            "DRIFTLINE_CONFIG": os.devnull,
            "DRIFTLINE_CONNECT_TIMEOUT": CONNECT_S,
        }

    def remove(self) -> None:
        """Take everything of the project away, its volumes included; nothing may be left."""
        self.compose("--profile", "tools", "down", "--volumes", "--remove-orphans", "--timeout", "12")
        for kind in ("container", "network", "volume"):
            everything = ("--all",) if kind == "container" else ()
            left = self.engine.docker(
                kind, "ls", *everything, "--quiet", "--filter", f"label=com.docker.compose.project={PROJECT}"
            )
            assert not left, f"a {kind} is left: {left}"

    def _environment(self) -> dict[str, str]:
        plain = {name: value for name, value in self.engine.environment.items() if not name.startswith("DRIFTLINE_")}
        return {**plain, "KAFKA_PORT": str(self.port), **self.variables}


def _container(found: dict[str, Any]) -> Container:
    state = found["State"]
    running = state["Running"] or state["Status"] == "created"
    return Container(
        name=found["Name"].lstrip("/"),
        service=found["Config"]["Labels"]["com.docker.compose.service"],
        code=None if running else state["ExitCode"],
        health=state.get("Health", {}).get("Status", ""),
    )


def until(what: str, look: Callable[[], bool], timeout_s: float, pause_s: float = 1.0) -> float:
    """Wait until ``look`` returns true; return the seconds that it took.

    Raises:
        AssertionError: it did not, in time.
    """
    began_s = time.monotonic()
    while not look():
        waited_s = time.monotonic() - began_s
        assert waited_s < timeout_s, f"not within {timeout_s:.0f} s: {what}"
        time.sleep(pause_s)
    return time.monotonic() - began_s
