"""``driftline server``: one parameter server in the foreground."""

import click

from driftline.cli.options import Words, connection_options
from driftline.cli.roles import role_options, stoppable
from driftline.config.keys import RUN_NAME


@click.command(epilog="Example: driftline server my-run --name server-1")
@click.argument("run", required=False, envvar=RUN_NAME.variable)
@click.option("--name", help="Of this server, unique in the run. Default: made of host and process id.")
@connection_options
@role_options
def server(run: str | None, name: str | None, *, stop_with_stdin: bool, **_settings: object) -> None:
    """Serve RUN: apply what its workers write and publish parameters, until the run ends.

    Servers of a run share its partitions; start as many as you like, before or after the workers. It needs no torch.
    """
    from driftline.broker.topics import check_run_name  # noqa: PLC0415 - keeps --help fast
    from driftline.config.members import check_member_name, own_name  # noqa: PLC0415

    words = Words()
    run = words.name(RUN_NAME, "RUN")
    connection, patience_s, address = words.connection(), words.patience_s(), words.metrics()
    words.problems.attempt(lambda: check_run_name(run) if run else "", "")
    chosen = words.problems.attempt(
        lambda: check_member_name(own_name("server") if name is None else name, "server"), ""
    )
    words.problems.check()

    from driftline.consumers.server.serving import serve  # noqa: PLC0415 - ditto
    from driftline.runtime.outcome import check_finish  # noqa: PLC0415
    from driftline.telemetry import identify  # noqa: PLC0415
    from driftline.telemetry.exporting import exporting  # noqa: PLC0415 - not needed to refuse

    identify(run=run, role="server", member=chosen)
    with (
        stoppable(f"server {chosen} of run {run}", with_stdin=stop_with_stdin) as stopping,
        exporting(address, run=run, role="server", member=chosen) as watch,
        connection.running() as kafka,
    ):
        finish = serve(kafka.broker, run, chosen, stop=stopping.begin(), patience_s=patience_s, watch=watch)
        check_finish(finish)
    click.echo(f"server {chosen}: {finish.reason}")
