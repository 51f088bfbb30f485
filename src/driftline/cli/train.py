"""``driftline train``: everything on one machine, from start to summary."""

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from driftline.cli.options import (
    DEFAULT_HOME,
    Words,
    connection_options,
    json_option,
    run_name_option,
    run_options,
    say,
    setting,
)
from driftline.cli.progress import ProgressLine, count
from driftline.config.keys import BROKER_NODES, CONFIG_VARIABLE, KAFKA, KEYS, METRICS, RUN_NAME, SERVERS, TASK_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from driftline.config.connection import Connection, Reached
    from driftline.config.run_settings import RunSettings
    from driftline.launch.chaos import Disturbance
    from driftline.launch.faults import Fault
    from driftline.observe.run.status import RunStatus
    from driftline.runs.catalogue import Members
    from driftline.telemetry.exporting import Address
    from driftline.training.task import Task


CHILD_CONNECT_S = 60.0
"""Seconds that a process of ours gives Kafka to answer at first: it has answered this one, so the machine is busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked for, checked. ``settings.run`` is to be replaced if ``name_is_default``."""

    task: str
    task_settings: dict[str, str]
    settings: "RunSettings"
    servers: int
    connection: "Connection"
    name_is_default: bool
    metrics: "Address | None" = None
    faults: "tuple[Fault, ...]" = ()


@click.command(epilog="Example: driftline train digits --workers 4 --mode ssp --staleness 2")
@click.argument("task", required=False, envvar=TASK_NAME.variable)
@run_name_option
@setting(SERVERS)
@setting(BROKER_NODES)
@setting(METRICS)
@run_options
@connection_options
@json_option
@click.option(
    "--chaos", "script", metavar="FAULTS",
    help='Faults to happen on purpose, such as "kill server-1@50, pause worker-2@80 for 5s" (docs/chaos.md).',
)  # fmt: skip
def train(*, as_json: bool, script: str | None, **_settings: object) -> str:
    """Train TASK on this machine: broker, servers and workers are started, watched and stopped.

    TASK is a built-in name (digits, fashion), package.module:Attribute or file.py:Attribute. Without
    --bootstrap-servers the Kafka of --home is used; if it is not running it is started, and stopped at the end.
    Progress goes to stderr, the summary to stdout. Every process writes a log under --home/runs/NAME. Without --run the
    run is called after the task, with a number appended if the name is taken.
    """
    from driftline.cli.signals import terminated_is_interrupted  # noqa: PLC0415
    from driftline.cli.tables import summary_lines  # noqa: PLC0415 - keeps --help fast
    from driftline.launch.launcher import in_background  # noqa: PLC0415
    from driftline.runtime.outcome import check_finish  # noqa: PLC0415
    from driftline.schemas.effects import Finish  # noqa: PLC0415
    from driftline.training.task import load_task  # noqa: PLC0415

    request = _read(Words(), script)
    began_s = time.monotonic()
    line = ProgressLine()
    with terminated_is_interrupted():
        # Importing torch takes as long as starting a broker, so both are done at once.
        loading = in_background(lambda: load_task(request.task, request.task_settings), "load task")
        try:
            with request.connection.started(line.say) as kafka:
                if loading.done():
                    loading.result()
                seen, training_s, disturbances = _train(request, kafka, loading, line)
        finally:
            line.clear()
    lines = summary_lines(seen, training_s, time.monotonic() - began_s)
    for text in [
        *lines,
        *(f"  {one}" for one in disturbances),
        f"look further: {_program()} status {seen.run}{_where(request.connection)}",
    ]:
        click.echo(text, err=as_json)
    if as_json:
        chaos = {"chaos": [one.to_dict() for one in disturbances]} if disturbances else {}
        click.echo(json.dumps(seen.to_dict() | chaos, allow_nan=False))
    if seen.ended is not None:
        check_finish(Finish(seen.ended.reason, seen.ended.failure))
    return seen.run


def _read(words: Words, script: str | None) -> Request:
    """Check every word before anything is started."""
    from driftline.launch.nodes import read_faults  # noqa: PLC0415 - keeps --help fast
    from driftline.runs.naming import default_run_name  # noqa: PLC0415 - ditto

    problems = words.problems
    task, run = words.name(TASK_NAME, "TASK"), words.choice.text(RUN_NAME)
    words.check_task(task)
    settings, servers = words.run(default_run_name(task) if run is None else run), words.servers()
    evaluators = 1  # in this process
    connection = replace(words.connection(), nodes=words.broker_nodes())
    request = Request(
        task=task,
        connection=connection,
        settings=settings,
        task_settings=words.task_settings(),
        servers=servers,
        metrics=words.first_metrics(servers + settings.workers + evaluators),
        name_is_default=run is None,
        faults=read_faults(script, connection, settings, servers, problems),
    )
    problems.check()
    if words.file is not None:
        say(f"settings from {words.file}")
    return request


def _train(
    request: Request, kafka: "Reached", loading: "Future[Task]", line: ProgressLine
) -> "tuple[RunStatus, float, Sequence[Disturbance]]":
    from driftline.launch.disk_watch import DiskWatch  # noqa: PLC0415 - keeps --help fast
    from driftline.launch.launcher import Launcher  # noqa: PLC0415
    from driftline.launch.nodes import nodes_for_faults  # noqa: PLC0415
    from driftline.launch.plan import Plan, run_folder  # noqa: PLC0415
    from driftline.observe.run.summary import read_summary  # noqa: PLC0415
    from driftline.runs.naming import unused_names  # noqa: PLC0415

    home = request.connection.home
    with _chosen_run(request, kafka, line) as (settings, existing):
        plan = Plan(
            task=request.task,
            task_settings=request.task_settings,
            settings=settings,
            servers=unused_names("server", request.servers, existing.servers),
            workers=unused_names("worker", settings.workers, existing.workers),
            bootstrap_servers=kafka.bootstrap_servers,
            environment={**_environment(request.connection), **_log_environment()},
            logs=run_folder(home, settings.run),
            metrics=request.metrics,
        )
        line.say(
            f"run {settings.run}: {request.task} with {count(len(plan.workers), 'worker')} and "
            f"{count(len(plan.servers), 'server')}, Kafka at {kafka.bootstrap_servers}\nlogs are in {plan.logs}"
        )
        _say_metrics(plan.addresses(), line)
        launcher = Launcher(
            kafka.broker, plan, load_task=loading, show=line.show, say=line.say, faults=request.faults,
            nodes=nodes_for_faults(request.connection, kafka.broker, settings.run, request.faults),
            disk=DiskWatch(home if request.connection.bootstrap_servers is None else None),
        )  # fmt: skip
        state = launcher.run()
        return *read_summary(kafka.broker, settings.run, state), launcher.disturbances


def _say_metrics(addresses: "Mapping[str, Address]", line: ProgressLine) -> None:
    """Print where each process will serve metrics, after checking that the ports are free.

    Raises:
        UsageError: another process has one of the ports.
    """
    if not addresses:
        return
    from driftline.telemetry.exporter import check_free  # noqa: PLC0415 - an extra, and only when it is asked for
    from driftline.telemetry.exporting import metrics_url  # noqa: PLC0415 - keeps --help fast

    for name, address in addresses.items():
        check_free(*address)
        line.say(f"metrics of {name} at {metrics_url(address)}")


@contextmanager
def _chosen_run(request: Request, kafka: "Reached", line: ProgressLine) -> "Iterator[tuple[RunSettings, Members]]":
    """Decide on the name, and keep other ``train`` commands of this home away from it."""
    from driftline.config.adopting import adopted_settings  # noqa: PLC0415
    from driftline.errors import RunRefused  # noqa: PLC0415
    from driftline.launch.plan import lock_run  # noqa: PLC0415 - keeps --help fast
    from driftline.runs.catalogue import Members, find_members  # noqa: PLC0415
    from driftline.runs.naming import unused_run_name  # noqa: PLC0415
    from driftline.telemetry import identify  # noqa: PLC0415

    home, wanted = request.connection.home, request.settings.run
    name, reserved = wanted, set[str]()
    if request.name_is_default:
        name = unused_run_name(kafka.broker, wanted)
    while (lock := lock_run(home, name)) is None:
        if not request.name_is_default:
            raise RunRefused(f"another `driftline train` of {home} is at work on run {name!r}; choose another --run")
        reserved.add(name)
        name = unused_run_name(kafka.broker, wanted, reserved)
    try:
        if name != wanted:
            line.say(f"run {wanted!r} exists, so this one is called {name!r}")
        identify(run=name, role="train", member="train")
        existing = find_members(kafka.broker, name)
        if existing is not None:
            line.say(f"run {name!r} exists and has not ended: joining it")
        settings = replace(request.settings, run=name)
        if existing is not None and existing.config is not None:
            settings = adopted_settings(settings, existing.config)
        yield settings, existing or Members()
    finally:
        lock.release()


def _environment(connection: "Connection") -> dict[str, str]:
    """Hand Kafka's properties to the processes where other users cannot see them.

    Everything else is on their command lines, so variables and files that were settled here must not count again.
    """
    addresses, timeout, pairs, protocol = KAFKA
    properties = [f"{name}={value}" for name, value in (connection.properties or {}).items()]
    return {
        **{key.variable: "" for key in KEYS},
        CONFIG_VARIABLE: os.devnull,
        addresses.variable: connection.bootstrap_servers or "",
        timeout.variable: str(max(connection.timeout_s, CHILD_CONNECT_S)),
        pairs.variable: "\n".join(properties),
        protocol.variable: connection.group_protocol,
    }


def _log_environment() -> dict[str, str]:
    """Let the logs of the processes look like ours."""
    return {"DRIFTLINE_LOG_FORMAT": click.get_current_context().find_root().params["log_format"]}


def _program() -> str:
    """Return how this command can be called again: it may lie in an environment that is not active."""
    typed = sys.argv[0]
    needs_path = Path(typed).name == "driftline" and os.sep in typed and shutil.which("driftline") is None
    return typed if needs_path else "driftline"


def _where(connection: "Connection") -> str:
    """Return the options by which another command finds the same Kafka, as far as they are not the default."""
    if connection.bootstrap_servers is not None:
        return f" --bootstrap-servers {connection.bootstrap_servers}"
    return "" if connection.home == Path(DEFAULT_HOME) else f" --home {connection.home}"
