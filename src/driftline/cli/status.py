"""``driftline status``: where a run stands."""

import json
from typing import Any

import click

from driftline.cli.options import connect, connection_options, json_option, say


@click.command()
@click.argument("run")
@connection_options
@json_option
def status(run: str, *, as_json: bool, **options: Any) -> None:
    """Show where RUN stands, from its ledger and its newest events.

    Joins no group and writes nothing. If the broker of --home is not running, it is started for as long as it is read.
    """
    from driftline.broker.topics import check_run_name  # noqa: PLC0415 - keeps --help fast

    check_run_name(run)
    connection = connect(options)

    from driftline.cli.tables import status_lines  # noqa: PLC0415 - not needed to refuse
    from driftline.training.reading import check_run_exists, read_ledger, read_recent_events  # noqa: PLC0415
    from driftline.training.status import build_status  # noqa: PLC0415

    with connection.readable(say) as kafka:
        check_run_exists(kafka.broker, run)
        state = read_ledger(kafka.broker, run, say)
        seen = build_status(run, state, read_recent_events(kafka.broker, run, state))
    if as_json:
        click.echo(json.dumps(seen.to_dict(), allow_nan=False))
        return
    for line in status_lines(seen):
        click.echo(line)
