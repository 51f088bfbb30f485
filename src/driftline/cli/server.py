"""``driftline server``: one parameter server in the foreground."""

from typing import Any

import click

from driftline.cli.options import ConnectionWords, connection_options
from driftline.cli.roles import role_options, stoppable


@click.command()
@click.argument("run")
@click.option("--name", help="Of this server, unique in the run. Default: made of host and process id.")
@connection_options
@role_options
def server(run: str, name: str | None, *, patience_s: float, stop_with_stdin: bool, **options: Any) -> None:
    """Serve RUN: apply what its workers write and publish parameters, until the run ends.

    Servers of a run share its partitions; start as many as you like, before or after the workers. It needs no torch.
    """
    from driftline.broker.topics import check_run_name  # noqa: PLC0415 - keeps --help fast
    from driftline.config.members import check_member_name, own_name  # noqa: PLC0415
    from driftline.config.problems import Problems  # noqa: PLC0415

    problems = Problems()
    connection = ConnectionWords.of(options).read(problems)
    problems.attempt(lambda: check_run_name(run), "")
    chosen = problems.attempt(lambda: check_member_name(own_name("server") if name is None else name, "server"), "")
    problems.check()

    from driftline.consumers.serving import serve  # noqa: PLC0415 - not needed to refuse
    from driftline.training.outcome import check_finish  # noqa: PLC0415

    with (
        stoppable(f"server {chosen} of run {run}", with_stdin=stop_with_stdin) as stopping,
        connection.running() as kafka,
    ):
        finish = serve(kafka.broker, run, chosen, stop=stopping.begin(), patience_s=patience_s)
        check_finish(finish)
    click.echo(f"server {chosen}: {finish.reason}")
