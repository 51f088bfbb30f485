"""``driftline runs``: which runs a Kafka holds."""

import json
from typing import TYPE_CHECKING

import click

from driftline.cli.options import Words, connect, connection_options, json_option, run_options, say, setting
from driftline.config.keys import PATIENCE, RUN, RUN_NAME, TASK_NAME

if TYPE_CHECKING:
    from driftline.config.connection import Connection

EXAMPLE = "Example: driftline runs create my-run --task digits --mode ssp --workers 4"


@click.group(invoke_without_command=True, epilog="Example: driftline runs list")
@connection_options
@json_option
@click.pass_context
def runs(context: click.Context, /, *, as_json: bool, **_settings: object) -> None:
    """List the runs that a Kafka holds, make one, end one, or delete one.

    If the broker of --home is not running, it is started for as long as it is needed.
    """
    if context.invoked_subcommand is None:
        _list(connect(), as_json=as_json)


@runs.command("list", epilog="Example: driftline runs list --json")
@connection_options
@json_option
def list_runs(*, as_json: bool, **_settings: object) -> None:
    """List the runs; the same as `driftline runs`."""
    _list(connect(), as_json=as_json)


def _list(connection: "Connection", *, as_json: bool) -> None:
    from driftline.cli.tables import table  # noqa: PLC0415 - not needed to refuse
    from driftline.runs.catalogue import list_runs as read_runs  # noqa: PLC0415

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


@runs.command(short_help="Make a run, or only its topics.", epilog=EXAMPLE)
@click.argument("run", metavar="NAME", required=False, envvar=RUN_NAME.variable)
@click.option("--task", metavar=TASK_NAME.metavar, envvar=TASK_NAME.variable, show_envvar=True, help=TASK_NAME.help)
@run_options
@connection_options
@setting(PATIENCE)
def create(**_settings: object) -> None:
    """Make run NAME of a task and its settings, so that workers can join without repeating them.

    A run holds a model, so it is made from a task: its topics are created, the proposal is written, and accepted by a
    server of the run, or by this command if there is none. Nobody trains yet. Without a task only the topics are made;
    the first worker's settings are the run's then.
    """
    words = Words()
    name, task = words.name(RUN_NAME, "NAME"), words.choice.text(TASK_NAME)
    settings, pairs = words.run(name), words.task_settings()
    connection, patience_s = words.connection(), words.patience_s()
    if task is None:
        _check_settings_are_used(words)
    else:
        words.check_task(task)
    words.problems.check()

    from driftline.training.worker.preparing import prepare_topics  # noqa: PLC0415 - not needed to refuse

    if task is None:
        with connection.started(say) as kafka:
            made = prepare_topics(kafka.broker, settings)
        click.echo(f"run {name}: {made}. It begins with its first worker, whose settings it gets.")
        return

    from driftline.config.members import own_name  # noqa: PLC0415 - keeps --help fast
    from driftline.runs.requests import EXISTS  # noqa: PLC0415 - not needed to refuse
    from driftline.training.task import load_task  # noqa: PLC0415 - ditto
    from driftline.training.task.computing import Computing  # noqa: PLC0415 - torch takes seconds

    offer = Computing(load_task(task, pairs), settings).offer
    with connection.started(say) as kafka:
        from driftline.runs.commands import create_run  # noqa: PLC0415 - not needed to refuse

        prepare_topics(kafka.broker, settings)
        finish = create_run(kafka.broker, name, offer, own_name("creator"), timeout_s=patience_s)
    click.echo(f"run {name} {finish.reason}{' already, with the same settings' if finish.reason == EXISTS else ''}")


def _check_settings_are_used(words: Words) -> None:
    """Refuse settings of the run that a run without a task would not keep."""
    for key in RUN:
        if words.choice.is_said(key) and words.choice.place(key) == key.option and key.name != "partitions":
            words.problems.add(
                f"{key.option}: a run keeps it only if it is made from a task; add --task, or give it to the workers"
            )


@runs.command(short_help="End a run at its present version.", epilog="Example: driftline runs stop my-run")
@click.argument("run", metavar="NAME", required=False, envvar=RUN_NAME.variable)
@click.option("--reason", default="driftline runs stop", show_default=True, help="Stands in the ledger, for everybody.")
@connection_options
@setting(PATIENCE)
def stop(reason: str, **_settings: object) -> None:
    """End run NAME where it stands: its last version is published, and every member ends with exit code 0.

    If no server of the run is at work, this command serves it for as long as that takes.
    """
    words = Words()
    name, connection, patience_s = words.name(RUN_NAME, "NAME"), words.connection(), words.patience_s()
    words.problems.check()

    from driftline.config.members import own_name  # noqa: PLC0415 - keeps --help fast
    from driftline.ledger.entering.reading import check_run_exists  # noqa: PLC0415
    from driftline.runs.commands import stop_run  # noqa: PLC0415 - not needed to refuse

    with connection.readable(say) as kafka:
        check_run_exists(kafka.broker, name)
        state = stop_run(kafka.broker, name, own_name("command"), reason, timeout_s=patience_s)
    ended = state.ended
    click.echo(f"run {name} ended at version {state.version}: {ended.failure or ended.reason if ended else ''}")


@runs.command(short_help="Delete the topics of a run.", epilog="Example: driftline runs delete my-run --yes")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@connection_options
def delete(name: str, *, yes: bool, **_settings: object) -> None:
    """Delete run NAME: its topics, and with them everything that is known of it. Its logs on this machine stay.

    A run that somebody is at work on is stopped first, so that its members end and know why.
    """
    from driftline.broker.topics import check_run_name  # noqa: PLC0415 - keeps --help fast

    check_run_name(name)
    connection = connect()

    from driftline.config.members import own_name  # noqa: PLC0415 - keeps --help fast
    from driftline.runs.catalogue import examine_deletion  # noqa: PLC0415 - not needed to refuse
    from driftline.runs.commands import delete_run  # noqa: PLC0415 - ditto

    with connection.readable(say) as kafka:
        found = examine_deletion(kafka.broker, name)
        if not yes:
            at_work = f" {', '.join(found.at_work)} will be stopped." if found.at_work else ""
            say(f"run {name} is {found.what}.{at_work}")
            click.confirm(f"delete run {name} at {kafka.bootstrap_servers} for ever?", abort=True, err=True)
        deleted = delete_run(kafka.broker, name, own_name("command") if found.at_work else None)
    click.echo(f"deleted run {name}: {len(deleted)} topics")
