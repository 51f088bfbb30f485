"""``driftline doctor``: what is wrong with a Kafka, and what its administrator has to run."""

import dataclasses
import json

import click

from driftline.cli.options import Words, connection_options, json_option, say, setting
from driftline.config.keys import RUN_NAME, by_parameter
from driftline.errors import BrokerError

PARTITIONS = by_parameter()["partitions"]


@click.command(epilog="Example: driftline doctor my-run --bootstrap-servers kafka:9093 --principal worker=User:ada")
@click.argument("run", required=False, envvar=RUN_NAME.variable)
@click.option(
    "--principal",
    "principals",
    multiple=True,
    metavar="ROLE=PRINCIPAL",
    show_default=False,
    help="Who shall be server, worker, reader or owner, for the access rules that are printed; repeatable.",
)
@setting(PARTITIONS)
@connection_options
@json_option
def doctor(principals: tuple[str, ...], *, as_json: bool, **_settings: object) -> None:  # fmt: skip
    """Examine a Kafka: addresses, limits, clock, and for RUN its topics and this client's rights.

    With RUN it prints what an administrator runs to make the topics and to let servers and workers in. Nothing is
    changed; a topic that compares the clocks is made and deleted again, where that is allowed. The exit code is 1 if
    there is a problem.
    """
    from driftline.broker.topics import check_run_name  # noqa: PLC0415 - keeps --help fast
    from driftline.config.run import MAX_PARTITIONS  # noqa: PLC0415
    from driftline.observe.doctor.administration import commands, heading, read_principals  # noqa: PLC0415 - keeps --help fast
    from driftline.observe.doctor.findings import PROBLEM, findings  # noqa: PLC0415

    words = Words()
    run = words.choice.text(RUN_NAME) or ""
    connection = words.connection()
    partitions = words.problems.whole(PARTITIONS.option, words.text(PARTITIONS), 1, MAX_PARTITIONS)
    words.problems.attempt(lambda: check_run_name(run) if run else "", "")
    named = read_principals(principals, words.problems)
    words.problems.check()

    from driftline.observe.doctor.examine import examine  # noqa: PLC0415 - not needed to refuse

    with connection.readable(say) as kafka:
        settings = connection.settings(kafka.bootstrap_servers)
        facts = examine(settings, run, partitions, timeout_s=connection.timeout_s)
        found = findings(facts)
        to_run = commands(run, partitions, named, kafka.bootstrap_servers) if run else []
    if as_json:
        click.echo(json.dumps({"findings": [dataclasses.asdict(one) for one in found], "commands": to_run}))
    else:
        for one in found:
            click.echo(f"{one.level:8} {one.subject}: {one.text}")
        for line in ["", heading(named), *to_run] if to_run else []:
            click.echo(line)
    problems = sum(one.level == PROBLEM for one in found)
    if problems:
        raise BrokerError(f"{problems} problem{'' if problems == 1 else 's'} found")
