"""``driftline runs``: list the runs that a Kafka holds, make one, end one, delete one."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from driftline.broker.topics import check_run_name
from driftline.cli.lazily import lazily
from driftline.cli.screens.tables import say, table
from driftline.config.keys import RUN, RUN_NAME, TASK_NAME
from driftline.config.members import own_name
from driftline.config.sections import RoleSection, TaskSection
from driftline.config.settings import Settings
from driftline.ledger.entering.reading import check_run_exists
from driftline.runs.catalogue import examine_deletion
from driftline.runs.catalogue import list_runs as read_runs
from driftline.runs.commands import create_run, delete_run, stop_run
from driftline.runs.requests import EXISTS
from driftline.training.task.loading import load_task, read_task
from driftline.training.worker.topics import RunTopics

if TYPE_CHECKING:
    from driftline.training.task.computing import Computing
else:  # it imports torch, which takes seconds: settings that are wrong are refused before
    Computing = lazily("driftline.training.task.computing:Computing")


def list_runs(settings: Settings, *, home: Path, as_json: bool) -> None:
    """List the runs."""
    connection = settings.connection(home)
    settings.problems.check()
    with connection.readable(say) as kafka:
        entries = read_runs(kafka.broker, say)
    if as_json:
        click.echo(json.dumps([entry.to_dict() for entry in entries], allow_nan=False))
        return
    head = ("run", "state", "version", "uuid")
    rows = [(one.run, one.state, str(one.version), one.uuid or "-") for one in entries]
    for line in table([head, *rows]) if rows else ["no runs"]:
        click.echo(line)
    for entry in entries:
        if entry.problem:
            say(f"{entry.run}: {entry.problem}")


def create(settings: Settings, *, home: Path) -> None:
    """Make a run of a task, or only the topics of a run."""
    name, task = settings.name(RUN_NAME, "NAME"), settings.choice.text(TASK_NAME)
    wanted, pairs = settings.run(name or "unnamed"), settings.section(TaskSection).settings
    connection, patience_s = settings.connection(home), settings.section(RoleSection).patience
    if task is None:
        _check_settings_are_used(settings)
    else:
        read_task(settings)
    settings.problems.check()
    if task is None:
        with connection.started(say) as kafka:
            made = RunTopics(kafka.broker, wanted).create()
        click.echo(f"run {name}: {made}. It begins with its first worker, whose settings it gets.")
        return
    found = load_task(task, pairs)
    offer = Computing(found, wanted).offer
    with connection.started(say) as kafka:
        topics = RunTopics(kafka.broker, wanted)
        if topics.settings != wanted:  # other partitions, of topics that were made before
            offer = Computing(found, topics.settings).offer
        topics.create()
        finish = create_run(kafka.broker, name, offer, own_name("creator"), timeout_s=patience_s)
    click.echo(f"run {name} {finish.reason}{' already, with the same settings' if finish.reason == EXISTS else ''}")


def _check_settings_are_used(settings: Settings) -> None:
    """Refuse settings of the run that a run without a task would not keep."""
    for key in RUN:
        if settings.choice.source(key) == key.option and key.name != "partitions":
            settings.problems.add(
                f"{key.option}: a run keeps it only if it is made from a task; add --task, or give it to the workers"
            )


def stop(settings: Settings, *, reason: str, home: Path) -> None:
    """End a run where it stands."""
    name, connection = settings.name(RUN_NAME, "NAME"), settings.connection(home)
    patience_s = settings.section(RoleSection).patience
    settings.problems.check()
    with connection.readable(say) as kafka:
        check_run_exists(kafka.broker, name)
        state = stop_run(kafka.broker, name, own_name("command"), reason, timeout_s=patience_s)
    ended = state.ended
    click.echo(f"run {name} ended at version {state.version}: {ended.failure or ended.reason if ended else ''}")


def delete(settings: Settings, *, yes: bool, home: Path) -> None:
    """Delete a run."""
    name = check_run_name(settings.choice.text(RUN_NAME) or "")
    connection = settings.connection(home)
    settings.problems.check()
    with connection.readable(say) as kafka:
        found = examine_deletion(kafka.broker, name)
        if not yes:
            at_work = f" {', '.join(found.at_work)} will be stopped." if found.at_work else ""
            say(f"run {name} is {found.what}.{at_work}")
            click.confirm(f"delete run {name} at {kafka.bootstrap_servers} for ever?", abort=True, err=True)
        deleted = delete_run(kafka.broker, name, own_name("command") if found.at_work else None)
    click.echo(f"deleted run {name}: {len(deleted)} topics")
