"""``driftline broker``: the Kafka on this machine."""

import dataclasses
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from driftline.broker.embedded import EmbeddedBroker, NodeStatus

Command = TypeVar("Command", bound=Callable[..., None])

_WATCH_S = 0.5


def _home_option(command: Command) -> Command:
    return click.option(
        "--home",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path(".driftline"),
        envvar="DRIFTLINE_HOME",
        show_envvar=True,
        show_default=True,
        help="Where the broker keeps its data, ports and logs.",
    )(command)


def _port_option(command: Command) -> Command:
    return click.option(
        "--port",
        type=click.IntRange(1, 65535),
        help="Port for clients. Default: a free one, chosen once and kept.",
    )(command)


def _nodes_option(command: Command) -> Command:
    return click.option(
        "--nodes",
        type=int,
        metavar="N",
        help="Nodes of a new broker: 1, 3, 5 or 7. Default: as many as it was made with; 1 for a new one.",
    )(command)


def _timeout_option(default_s: float, what: str) -> Callable[[Command], Command]:
    option = click.option(
        "--timeout", "timeout_s", type=click.FloatRange(min=0, min_open=True), default=default_s, show_default=True,
        metavar="SECONDS", help=what,
    )  # fmt: skip

    def decorate(command: Command) -> Command:
        return option(command)

    return decorate


def _report(line: str) -> None:
    click.echo(line, err=True)


@click.group(epilog="Example: driftline broker start")
def broker() -> None:
    """Run an Apache Kafka on this machine, without Docker and without an installed Java.

    The first start fetches about 45 MB into the user's cache directory. The broker listens on 127.0.0.1 only.
    """


@broker.command(short_help="Start it in the background, or find it running.", epilog="Example: driftline broker start")
@_home_option
@_port_option
@_nodes_option
@_timeout_option(120.0, "How long the start may take; a first download is not counted.")
def start(home: Path, port: int | None, nodes: int | None, timeout_s: float) -> None:
    """Start the broker in the background, or find it running; it runs until `stop`.

    Nodes of it that do not run are started, and the others left alone. Prints the bootstrap servers once it answers.
    """
    from driftline.broker.embedded import EmbeddedBroker  # noqa: PLC0415 - keeps --help fast

    click.echo(EmbeddedBroker(home, keep=True, port=port, nodes=nodes, report=_report).start(timeout_s))


@broker.command(epilog="Example: driftline broker stop")
@_home_option
@_timeout_option(30.0, "How long it may take to end by itself before it is killed.")
def stop(home: Path, timeout_s: float) -> None:
    """Stop the broker; its data stays."""
    from driftline.broker.embedded import EmbeddedBroker  # noqa: PLC0415 - keeps --help fast

    _report("stopped" if EmbeddedBroker(home).stop(timeout_s) else f"no broker of {home} is running")


@broker.command(epilog="Example: driftline broker status --json")
@_home_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def status(home: Path, *, as_json: bool) -> None:
    """Show whether the broker runs, and where; of several nodes, each."""
    from driftline.broker.embedded import EmbeddedBroker  # noqa: PLC0415 - keeps --help fast

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


def _line_of(node: "NodeStatus") -> str:
    pid = f"pid {node.pid}" if node.running else ""
    words = f"{f'node {node.node}':18} {node.state:9} {node.address:16} {pid:12} {'controller' * node.controller}"
    return words.rstrip()


@broker.command(short_help="Kill a node, as a crash would.", epilog="Example: driftline broker kill 2")
@click.argument("node", type=int)
@_home_option
def kill(node: int, home: Path) -> None:
    """End the process of NODE as a crash would (SIGKILL), to see what follows; `start` brings it back."""
    from driftline.broker.embedded import EmbeddedBroker  # noqa: PLC0415 - keeps --help fast

    _report(f"node {node} is killed" if EmbeddedBroker(home).kill(node) else f"node {node} was not running")


@broker.command(short_help="Run it in the foreground, until Ctrl-C or SIGTERM.", epilog="Example: driftline broker run")
@_home_option
@_port_option
@_nodes_option
@_timeout_option(120.0, "How long the start may take; a first download is not counted.")
def run(home: Path, port: int | None, nodes: int | None, timeout_s: float) -> None:
    """Run the broker until Ctrl-C (exit code 130) or SIGTERM (0); it ends with this process, however that ends."""
    from driftline.broker.embedded import EmbeddedBroker  # noqa: PLC0415 - keeps --help fast

    kafka = EmbeddedBroker(home, port=port, nodes=nodes, report=_report)
    with _terminate_means_exit():
        try:
            click.echo(kafka.start(timeout_s))
            _watch(kafka)
        finally:
            kafka.release()


@contextmanager
def _terminate_means_exit() -> Iterator[None]:
    """Let SIGTERM, a service manager's way to stop us, unwind the stack as Ctrl-C does, with exit code 0."""

    def leave(_number: int, _frame: FrameType | None) -> None:
        sys.exit(0)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _watch(kafka: "EmbeddedBroker", pause: Callable[[float], None] = time.sleep) -> None:
    from driftline.errors import EmbeddedBrokerError  # noqa: PLC0415 - keeps --help fast

    dead: set[int] = set()
    while (seen := kafka.status()).running:
        died = {node.node for node in seen.nodes if node.state == "died"}
        for node in sorted(died - dead):
            _report(f"node {node} died; `driftline broker start` brings it back")
        dead = died
        pause(_WATCH_S)
    if seen.state == "died":
        raise EmbeddedBrokerError(f"the broker died; its log is {seen.log}. `driftline broker run` starts it again.")
    _report("the broker was stopped by another process")


@broker.command(
    short_help="Fetch Kafka now, so that even a first start is fast.", epilog="Example: driftline broker prepare"
)
def prepare() -> None:
    """Fetch Kafka and make its ahead-of-time cache now, so that even a first start is fast."""
    from driftline.broker.embedded.prepare import prepare as prepare_now  # noqa: PLC0415 - keeps --help fast

    path = prepare_now(_report)
    _report(f"ready: {path}" if path else "nothing to do here")
