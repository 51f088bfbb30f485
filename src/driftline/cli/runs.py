"""``driftline runs``: which runs a Kafka holds."""

import json
from typing import TYPE_CHECKING

import click

from driftline.cli.options import connect, connection_options, json_option, say

if TYPE_CHECKING:
    from driftline.config.connection import Connection


@click.group(invoke_without_command=True, epilog="Example: driftline runs list")
@connection_options
@json_option
@click.pass_context
def runs(context: click.Context, /, *, as_json: bool, **_settings: object) -> None:
    """List the runs that a Kafka holds, or delete one.

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
    from driftline.training.catalogue import list_entries  # noqa: PLC0415

    with connection.readable(say) as kafka:
        entries = list_entries(kafka.broker, say)
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


@runs.command(short_help="Delete the topics of a run.", epilog="Example: driftline runs delete my-run --yes")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@connection_options
def delete(name: str, *, yes: bool, **_settings: object) -> None:
    """Delete run NAME: its topics, and with them everything that is known of it. Its logs on this machine stay."""
    from driftline.broker.topics import check_run_name  # noqa: PLC0415 - keeps --help fast

    check_run_name(name)
    connection = connect()

    from driftline.training.catalogue import check_deletable, delete_run  # noqa: PLC0415 - not needed to refuse

    with connection.readable(say) as kafka:
        what = check_deletable(kafka.broker, name)
        if not yes:
            click.confirm(f"delete run {name} ({what}) at {kafka.bootstrap_servers} for ever?", abort=True, err=True)
        deleted = delete_run(kafka.broker, name)
    click.echo(f"deleted run {name}: {len(deleted)} topics")
