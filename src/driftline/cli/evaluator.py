"""``driftline evaluator``: measure a run on held-out data, in the foreground."""

import click

from driftline.cli.options import Words, connection_options, run_name_option, setting
from driftline.cli.roles import role_options, stoppable
from driftline.config.keys import RUN_NAME, TASK_NAME, TASK_SETTINGS


@click.command(epilog="Example: driftline evaluator digits --run my-run")
@click.argument("task", required=False, envvar=TASK_NAME.variable)
@run_name_option
@click.option("--name", help="Of this evaluator, unique in the run. Default: made of host and process id.")
@setting(TASK_SETTINGS)
@connection_options
@role_options
def evaluator(
    task: str | None, run: str | None, name: str | None, *, stop_with_stdin: bool, **_settings: object
) -> None:
    """Measure versions of a run on TASK's held-out data, and write the metrics into the run, until it ends.

    About one version a second is measured, and always the last one: a run with an evaluator waits for that verdict.
    `driftline train` does the same; beside roles that were started by hand, one evaluator is enough.
    """
    from driftline.broker.topics import check_run_name  # noqa: PLC0415 - keeps --help fast
    from driftline.config.members import check_member_name, own_name  # noqa: PLC0415
    from driftline.telemetry import identify  # noqa: PLC0415
    from driftline.telemetry.exporting import exporting  # noqa: PLC0415
    from driftline.training.task import check_task  # noqa: PLC0415

    words = Words()
    task, run = words.name(TASK_NAME, "TASK"), words.name(RUN_NAME, "--run")
    connection, patience_s, pairs = words.connection(), words.patience_s(), words.task_settings()
    address = words.metrics()
    problems = words.problems
    problems.attempt(lambda: check_run_name(run) if run else "", "")
    problems.attempt(lambda: check_task(task) if task else None, None)
    chosen = problems.attempt(
        lambda: check_member_name(own_name("evaluator") if name is None else name, "evaluator"), ""
    )
    problems.check()
    connection.check_known()

    identify(run=run, role="evaluator", member=chosen)
    with (
        stoppable(f"evaluator {chosen} of run {run}", with_stdin=stop_with_stdin) as stopping,
        exporting(address, run=run, role="evaluator", member=chosen) as watch_metrics,
    ):
        from driftline.consumers.server.serving import wait_for_run  # noqa: PLC0415 - not needed to refuse
        from driftline.runtime.outcome import check_finish  # noqa: PLC0415 - ditto
        from driftline.training.task import load_task  # noqa: PLC0415 - torch takes seconds
        from driftline.training.task.evaluating import evaluate_run  # noqa: PLC0415 - ditto

        found = load_task(task, pairs)
        with connection.running() as kafka:
            stop = stopping.begin()
            if not wait_for_run(kafka.broker, run, stop=stop, patience_s=patience_s):
                return
            finish, state = evaluate_run(
                kafka.broker, run, chosen, lambda: found, stop=stop, watch_metrics=watch_metrics
            )
            check_finish(finish)
    measured = max(state.evaluations, default=None)
    metrics = {} if measured is None else state.evaluations[measured].metrics
    values = ", ".join(f"{metric} {value:.4f}" for metric, value in metrics.items())
    click.echo(f"evaluator {chosen}: {finish.reason}; {values or 'nothing was measured'} (version {measured or 0})")
