"""``driftline worker``: one worker in the foreground."""

import click

from driftline.cli.options import Words, connection_options, run_name_option, run_options
from driftline.cli.roles import role_options, stoppable
from driftline.config.keys import RUN_NAME, TASK_NAME


@click.command(epilog="Example: driftline worker digits --run my-run --workers 2 --name ada")
@click.argument("task", required=False, envvar=TASK_NAME.variable)
@run_name_option
@click.option("--name", help="Of this worker, unique in the run. Default: made of host and process id.")
@click.option("--mark", default="", hidden=True, help="With which its incarnations begin; said by `train`.")
@run_options
@connection_options
@role_options
def worker(
    task: str | None, run: str | None, name: str | None, *, mark: str, stop_with_stdin: bool, **_settings: object
) -> None:
    """Compute gradients of TASK for a run, until the run ends.

    TASK is a built-in name (digits, fashion), package.module:Attribute or file.py:Attribute. A run that does not exist
    is made, with these settings. Of one that exists, what is not said here is taken from the run; what is said must be
    the same, else the worker is refused with the difference. Which samples a worker is leased, and with it the result,
    depends on its name.
    """
    from driftline.config.members import check_member_name, own_name  # noqa: PLC0415 - keeps --help fast
    from driftline.producers.incarnations import read_mark  # noqa: PLC0415 - ditto
    from driftline.telemetry import identify  # noqa: PLC0415
    from driftline.telemetry.exporting import exporting  # noqa: PLC0415 - keeps --help fast

    words = Words()
    task, run = words.name(TASK_NAME, "TASK"), words.name(RUN_NAME, "--run")
    connection, patience_s, address = words.connection(), words.patience_s(), words.metrics()
    settings, pairs = words.run(run), words.task_settings()
    problems = words.problems
    chosen = problems.attempt(lambda: check_member_name(own_name("worker") if name is None else name, "worker"), "")
    words.check_task(task)
    own_mark = problems.attempt(lambda: read_mark(mark), b"")
    problems.check()
    connection.check_known()

    identify(run=run, role="worker", member=chosen)
    with (
        stoppable(f"worker {chosen} of run {run}", with_stdin=stop_with_stdin) as stopping,
        exporting(address, run=run, role="worker", member=chosen) as watch,
    ):
        from driftline.training.task import load_task  # noqa: PLC0415 - torch takes seconds

        found = load_task(task, pairs)
        with connection.running() as kafka:
            from driftline.runtime.outcome import check_finish  # noqa: PLC0415 - torch takes seconds
            from driftline.training.task.worker import work  # noqa: PLC0415 - ditto

            stop = stopping.begin()
            finish = work(
                kafka.broker, settings, chosen, found, stop=stop, patience_s=patience_s, mark=own_mark, watch=watch
            )
            check_finish(finish)
    click.echo(f"worker {chosen}: {finish.reason}")
