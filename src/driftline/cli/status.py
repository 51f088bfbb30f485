"""``driftline status``: where a run stands."""

import json

import click

from driftline.cli.options import Words, connection_options, json_option, say
from driftline.config.keys import RUN_NAME


@click.command(epilog="Example: driftline status my-run --json")
@click.argument("run", required=False, envvar=RUN_NAME.variable)
@connection_options
@json_option
def status(run: str | None, *, as_json: bool, **_settings: object) -> None:
    """Show where RUN stands, from its ledger and its newest events.

    Joins no group and writes nothing. If the broker of --home is not running, it is started for as long as it is read.
    """
    from driftline.broker.topics import check_run_name  # noqa: PLC0415 - keeps --help fast

    words = Words()
    run = words.name(RUN_NAME, "RUN")
    words.problems.attempt(lambda: check_run_name(run) if run else "", "")
    connection = words.connection()
    words.problems.check()

    from driftline.cli.tables import status_lines  # noqa: PLC0415 - not needed to refuse
    from driftline.ledger.entering.reading import check_run_exists, read_ledger  # noqa: PLC0415
    from driftline.observe.run.summary import read_status  # noqa: PLC0415

    with connection.readable(say) as kafka:
        check_run_exists(kafka.broker, run)
        state = read_ledger(kafka.broker, run, say)
        seen = read_status(kafka.broker, run, state)
    if as_json:
        click.echo(json.dumps(seen.to_dict(), allow_nan=False))
        return
    for line in status_lines(seen):
        click.echo(line)
