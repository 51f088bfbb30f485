"""``driftline worker``: one worker in the foreground."""

from typing import Any

import click

from driftline.cli.options import ConnectionWords, connection_options, run_options, take_run_words
from driftline.cli.roles import role_options, stoppable


@click.command()
@click.argument("task")
@click.option("--run", required=True, metavar="NAME", help="The run to work for; it is made if it does not exist.")
@click.option("--name", help="Of this worker, unique in the run. Default: made of host and process id.")
@run_options
@connection_options
@role_options
def worker(
    task: str,
    run: str,
    name: str | None,
    task_settings: tuple[str, ...],
    *,
    patience_s: float,
    stop_with_stdin: bool,
    **options: Any,
) -> None:
    """Compute gradients of TASK for a run, until the run ends.

    TASK is a built-in name (digits), package.module:Attribute or file.py:Attribute. All workers of a run are given the
    same settings; one that has others is refused with the difference. Which part of the data a worker reads, and with
    it the result, depends on its name.
    """
    from driftline.config.members import check_member_name, own_name  # noqa: PLC0415 - keeps --help fast
    from driftline.config.pairs import read_pairs  # noqa: PLC0415
    from driftline.config.problems import Problems  # noqa: PLC0415
    from driftline.config.run import check_task  # noqa: PLC0415

    problems = Problems()
    connection = ConnectionWords.of(options).read(problems)
    settings = take_run_words(options).read(run, problems)
    chosen = problems.attempt(lambda: check_member_name(own_name("worker") if name is None else name, "worker"), "")
    pairs = read_pairs("--set", task_settings, problems)
    problems.attempt(lambda: check_task(task), None)
    problems.check()
    connection.check_known()

    with stoppable(f"worker {chosen} of run {run}", with_stdin=stop_with_stdin) as stopping:
        from driftline.training.task import load_task  # noqa: PLC0415 - torch takes seconds

        found = load_task(task, pairs)
        with connection.running() as kafka:
            from driftline.training.outcome import check_finish  # noqa: PLC0415 - torch takes seconds
            from driftline.training.working import work  # noqa: PLC0415 - ditto

            finish = work(kafka.broker, settings, chosen, found, stop=stopping.begin(), patience_s=patience_s)
            check_finish(finish)
    click.echo(f"worker {chosen}: {finish.reason}")
