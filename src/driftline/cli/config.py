"""``driftline config``: which settings count, and who said so."""

import json
from collections.abc import Iterator

import click

from driftline.cli.options import Words, connection_options, json_option, run_name_option, run_options, setting
from driftline.config.keys import BROKER_NODES, KEYS, METRICS, PATIENCE, RUN_NAME, SECTIONS, SERVERS, TASK_NAME, Kind

NOTHING = "-"


@click.command(epilog="Example: driftline config --reference > driftline.toml")
@click.argument("task", required=False, envvar=TASK_NAME.variable)
@click.option("--reference", is_flag=True, help="Print a file with every setting at its default, commented.")
@run_name_option
@run_options
@connection_options
@setting(SERVERS)
@setting(BROKER_NODES)
@setting(PATIENCE)
@setting(METRICS)
@json_option
def config(*, reference: bool, as_json: bool, **_settings: object) -> None:
    """Show every setting, and whether an option, the environment, a file or the default said it; asks no Kafka.

    Values of secret Kafka properties are masked. What is wrong is listed behind the settings, with exit code 2.
    """
    if reference:
        from driftline.config.reference import reference as full_text  # noqa: PLC0415 - keeps --help fast

        click.echo(full_text(), nl=False)
        return
    words = Words()
    rows = list(_rows(words))
    if as_json:
        values = [{"setting": name, "value": value, "said": place} for name, value, place in rows]
        click.echo(json.dumps({"file": None if words.file is None else str(words.file), "settings": values}))
    else:
        _print(rows, words)
    _check(words)


Row = tuple[str, str | None, str]


def _rows(words: Words) -> Iterator[Row]:
    """Yield name, value and place of every setting; pairs one by one."""
    from driftline.broker.kafka.properties import MASK, is_secret  # noqa: PLC0415 - keeps --help fast

    for key in KEYS:
        if key.kind is not Kind.PAIRS:
            yield key.path, words.choice.text(key), words.choice.place(key)
            continue
        for one in words.choice.said.get(key.parameter, ()):
            name, _, value = one.text.partition("=")
            yield f"{key.path}.{name.strip()}", MASK if is_secret(name) else value, one.place


def _print(rows: list[Row], words: Words) -> None:
    from driftline.cli.tables import table  # noqa: PLC0415 - keeps --help fast

    lines = table([(name, NOTHING if value is None else value, _short(place)) for name, value, place in rows])
    for section in SECTIONS:
        for line in lines:
            if line.startswith(f"{section}."):
                click.echo(line)
    if words.file is None:
        click.echo("no file: there is no driftline.toml here, and none is named", err=True)


def _short(place: str) -> str:
    """Return a place without the name of the setting, which stands beside it."""
    return place.partition(": ")[0]


def _check(words: Words) -> None:
    """Raise everything that is wrong, as any other command would."""
    from driftline.broker.topics import check_run_name  # noqa: PLC0415 - keeps --help fast
    from driftline.training.task import check_task  # noqa: PLC0415

    run, task = words.choice.text(RUN_NAME), words.choice.text(TASK_NAME)
    words.run("run" if run is None else run)
    words.connection()
    words.task_settings()
    words.patience_s()
    words.servers()
    words.broker_nodes()
    words.problems.attempt(lambda: None if task is None else check_task(task), None)
    words.problems.attempt(lambda: "" if run is None else check_run_name(run), "")
    words.problems.check()
