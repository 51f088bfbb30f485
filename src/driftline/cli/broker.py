"""``driftline broker``: the Kafka on this machine."""

import dataclasses
import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from driftline.broker.embedded import EmbeddedBroker, NodeStatus
from driftline.broker.embedded.prepare import prepare as prepare_now
from driftline.cli.screens.tables import say
from driftline.cli.stopping import handling
from driftline.errors import EmbeddedBrokerError

_WATCH_S = 0.5


def start(*, home: Path, port: int | None, nodes: int | None, timeout_s: float) -> None:
    """Start the broker in the background, or find it running."""
    click.echo(EmbeddedBroker(home, keep=True, port=port, nodes=nodes, report=say).start(timeout_s))


def stop_broker(*, home: Path, timeout_s: float) -> None:
    """Stop the broker."""
    say("stopped" if EmbeddedBroker(home).stop(timeout_s) else f"no broker of {home} is running")


def status_broker(*, home: Path, as_json: bool) -> None:
    """Show whether the broker runs, and where."""
    seen = EmbeddedBroker(home).status()
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(seen), default=str))
        return
    for field in dataclasses.fields(seen):
        value = getattr(seen, field.name)
        if field.name != "nodes":
            click.echo(f"{field.name:18} {'-' if value is None else value}")
    for node in seen.nodes if len(seen.nodes) > 1 else ():
        click.echo(_line_of(node))


def _line_of(node: NodeStatus) -> str:
    pid = f"pid {node.pid}" if node.running else ""
    words = f"{f'node {node.node}':18} {node.state:9} {node.address:16} {pid:12} {'controller' * node.controller}"
    return words.rstrip()


def kill(*, node: int, home: Path) -> None:
    """Kill a node, as a crash would."""
    say(f"node {node} is killed" if EmbeddedBroker(home).kill(node) else f"node {node} was not running")


def run(*, home: Path, port: int | None, nodes: int | None, timeout_s: float) -> None:
    """Run the broker in the foreground. SIGTERM unwinds the stack as Ctrl-C does, with exit code 0."""
    kafka = EmbeddedBroker(home, port=port, nodes=nodes, report=say)
    with handling(lambda _number, _frame: sys.exit(0), signal.SIGTERM):
        try:
            click.echo(kafka.start(timeout_s))
            _watch(kafka)
        finally:
            kafka.release()


def _watch(kafka: EmbeddedBroker, pause: Callable[[float], None] = time.sleep) -> None:
    dead: set[int] = set()
    while (seen := kafka.status()).running:
        died = {node.node for node in seen.nodes if node.state == "died"}
        for node in sorted(died - dead):
            say(f"node {node} died; `driftline broker start` brings it back")
        dead = died
        pause(_WATCH_S)
    if seen.state == "died":
        raise EmbeddedBrokerError(f"the broker died; its log is {seen.log}. `driftline broker run` starts it again.")
    say("the broker was stopped by another process")


def prepare() -> None:
    """Fetch Kafka and make its ahead-of-time cache."""
    path = prepare_now(say)
    say(f"ready: {path}" if path else "nothing to do here")
