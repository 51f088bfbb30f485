"""Train a task on this machine: from settings to a run that has ended. For the command line and for Python alike."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from driftline.config.connection import PROPERTIES, Connection, Reached
from driftline.config.freezing import adopted_settings
from driftline.config.keys import CONFIG_VARIABLE, KEYS, RUN_NAME, key
from driftline.config.pairs import join_pairs
from driftline.config.run_settings import RunSettings
from driftline.config.sections import TaskSection, TrainSection
from driftline.config.settings import Settings
from driftline.errors import RunRefused
from driftline.launch.chaos import Disturbance
from driftline.launch.disk_watch import DiskWatch
from driftline.launch.faults import Fault
from driftline.launch.launcher import Launcher, in_background
from driftline.launch.nodes import nodes_for_faults, read_faults
from driftline.launch.plan import Plan, lock_run, run_folder
from driftline.observe.records.values import count
from driftline.observe.run.progress import Progress
from driftline.observe.run.status import RunStatus
from driftline.observe.run.summary import read_summary
from driftline.runs.catalogue import Members, find_members
from driftline.runs.naming import default_run_name, unused_names, unused_run_name
from driftline.telemetry import identify
from driftline.telemetry.exporting import Address, metrics_url
from driftline.training.task import Task
from driftline.training.task.loading import load_task, read_task

CHILD_CONNECT_S = 60.0
"""Seconds that a child process waits for Kafka's first answer. Kafka has answered this process, so it is only busy."""

EVALUATORS = 1
"""Evaluators in this process."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Checked arguments. If ``name_is_default`` and a run ``settings.run`` exists, the run gets another name."""

    task: str
    task_settings: Mapping[str, str]
    settings: RunSettings
    servers: int
    connection: Connection
    name_is_default: bool
    metrics: Address | None = None
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where the run stands, seconds in which it made versions, and what became of the faults."""

    status: RunStatus
    training_s: float
    disturbances: Sequence[Disturbance]

    def to_dict(self) -> dict[str, Any]:
        """Return what ``driftline train --json`` prints."""
        chaos = {"chaos": [one.to_dict() for one in self.disturbances]} if self.disturbances else {}
        return self.status.to_dict() | chaos


def read_request(settings: Settings, home: Path, faults: str | None = None) -> Request:
    """Check all arguments before anything is started.

    Raises:
        ConfigError: lists everything that is wrong.
    """
    problems = settings.problems
    task, run = read_task(settings), settings.choice.text(RUN_NAME)
    chosen = settings.run(default_run_name(task) if run is None else run)
    servers = settings.section(TrainSection).servers
    connection = replace(settings.connection(home), nodes=settings.broker_nodes())
    request = Request(
        task=task,
        task_settings=settings.section(TaskSection).settings,
        settings=chosen,
        servers=servers,
        connection=connection,
        name_is_default=run is None,
        metrics=settings.first_metrics(servers + chosen.workers + EVALUATORS),
        faults=read_faults(faults, connection, chosen, servers, problems),
    )
    problems.check()
    return request


def train(request: Request, show: Callable[[Progress], None], say: Say) -> Outcome:
    """Start broker, servers and workers as far as they are missing, and train until the run ends.

    Args:
        request: see `read_request`.
        show: receives every new `Progress`.
        say: receives a line about each event of a process.

    Raises:
        RunRefused: the run exists with other settings, or another command is at work on it.
        RunError: too few processes are left.
        IntegrityError: the log contradicts itself.
        KeyboardInterrupt: Ctrl-C. All processes have ended by then.
    """
    # Importing torch takes as long as starting a broker, so both are done at once.
    loading = in_background(lambda: load_task(request.task, request.task_settings), "load task")
    with request.connection.started(say) as kafka:
        if loading.done():
            loading.result()
        with chosen_run(request, kafka, say) as (settings, existing):
            plan = _plan(request, kafka, settings, existing)
            workers, servers = count(len(plan.workers), "worker"), count(len(plan.servers), "server")
            say(f"run {settings.run}: {plan.task} with {workers} and {servers}, Kafka at {kafka.bootstrap_servers}")
            say(f"logs are in {plan.logs}")
            _say_metrics(plan.addresses(), say)
            return _launched(request, kafka, plan, loading, show, say)


def _launched(
    request: Request,
    kafka: Reached,
    plan: Plan,
    loading: Future[Task],
    show: Callable[[Progress], None],
    say: Say,
) -> Outcome:
    connection, run = request.connection, plan.settings.run
    launcher = Launcher(
        kafka.broker,
        plan,
        load_task=loading,
        show=show,
        say=say,
        faults=request.faults,
        nodes=nodes_for_faults(connection, kafka.broker, run, request.faults),
        disk=DiskWatch(connection.home if connection.bootstrap_servers is None else None),
    )
    status, training_s = read_summary(kafka.broker, run, launcher.run())
    return Outcome(status, training_s, launcher.disturbances)


def _plan(request: Request, kafka: Reached, settings: RunSettings, existing: Members) -> Plan:
    return Plan(
        task=request.task,
        task_settings=request.task_settings,
        settings=settings,
        servers=unused_names("server", request.servers, existing.servers),
        workers=unused_names("worker", settings.workers, existing.workers),
        bootstrap_servers=kafka.bootstrap_servers,
        environment=child_environment(request.connection),
        logs=run_folder(request.connection.home, settings.run),
        metrics=request.metrics,
    )


def child_environment(connection: Connection) -> dict[str, str]:
    """Return variables that give Kafka's properties to child processes, where other users cannot see them.

    Command lines hold all other settings, so the variables and the file that this process has read are switched off.
    """
    return {
        **{one.variable: "" for one in KEYS},
        CONFIG_VARIABLE: os.devnull,
        key("kafka.bootstrap_servers").variable: connection.bootstrap_servers or "",
        key("kafka.connect_timeout").variable: str(max(connection.timeout_s, CHILD_CONNECT_S)),
        PROPERTIES.variable: join_pairs(connection.properties or {}),
        key("kafka.group_protocol").variable: connection.group_protocol,
    }


def _say_metrics(addresses: Mapping[str, Address], say: Say) -> None:
    """Report where each process will serve metrics, after checking that the ports are free.

    Raises:
        UsageError: another process has one of the ports.
    """
    if not addresses:
        return
    from driftline.telemetry.exporter import check_free  # noqa: PLC0415 - an optional dependency

    for name, address in addresses.items():
        check_free(*address)
        say(f"metrics of {name} at {metrics_url(address)}")


@contextmanager
def chosen_run(request: Request, kafka: Reached, say: Say) -> Iterator[tuple[RunSettings, Members]]:
    """Choose the name of the run, and lock it against other ``train`` commands of this home."""
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
            say(f"run {wanted!r} exists, so this one is called {name!r}")
        identify(run=name, role="train", member="train")
        existing = find_members(kafka.broker, name)
        if existing is not None:
            say(f"run {name!r} exists and has not ended: joining it")
        settings = replace(request.settings, run=name)
        if existing is not None and existing.config is not None:
            settings = adopted_settings(settings, existing.config)
        yield settings, existing or Members()
    finally:
        lock.release()
