"""``driftline doctor``: what is wrong with a Kafka, and what its administrator has to run."""

import dataclasses
import json
from pathlib import Path

import click

from driftline.broker.topics import check_run_name
from driftline.cli.screens.tables import say
from driftline.config.keys import RUN_NAME, key
from driftline.config.settings import Settings
from driftline.errors import BrokerError
from driftline.observe.doctor.examine import examine
from driftline.observe.doctor.findings import PROBLEM, findings
from driftline.observe.doctor.rights import commands, heading, read_principals


def doctor(settings: Settings, *, principals: tuple[str, ...], home: Path, as_json: bool) -> None:
    """Examine a Kafka, and for a run its topics and this client's rights."""
    run = settings.choice.text(RUN_NAME) or ""
    connection, partitions = settings.connection(home), settings.value(key("run.partitions"))
    settings.problems.attempt(lambda: check_run_name(run) if run else "", "")
    named = read_principals(principals, settings.problems)
    settings.problems.check()
    with connection.readable(say) as kafka:
        clients = connection.settings(kafka.bootstrap_servers)
        found = findings(examine(clients, run, partitions, timeout_s=connection.timeout_s))
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
