"""``driftline config``: which settings count, and where they were given."""

import json
from collections.abc import Iterator
from pathlib import Path

import click

from driftline.broker.kafka.properties import MASK, is_secret
from driftline.cli.screens.tables import NOTHING, table
from driftline.config.keys import KEYS, RUN_NAME, SECTIONS, TASK_NAME, keys_in
from driftline.config.reference import reference as full_text
from driftline.config.settings import Settings
from driftline.schemas.run.setting import Kind
from driftline.training.task.loading import check_task

Row = tuple[str, str | None, str]


def config(settings: Settings, *, reference: bool, home: Path, as_json: bool) -> None:
    """Show every setting and its source."""
    if reference:
        click.echo(full_text(), nl=False)
        return
    rows = list(_rows(settings))
    if as_json:
        values = [{"setting": name, "value": value, "source": one, "said": one} for name, value, one in rows]
        file = None if settings.file is None else str(settings.file)
        click.echo(json.dumps({"file": file, "settings": values}))
    else:
        _print(rows, settings)
    _check(settings, home)


def _rows(settings: Settings) -> Iterator[Row]:
    """Yield name, value and source of every setting; pairs one by one."""
    for key in KEYS:
        if key.kind is not Kind.PAIRS:
            yield key.path, settings.choice.text(key), settings.choice.source(key)
            continue
        for one in settings.choice.pairs(key):
            name, _, value = one.text.partition("=")
            yield f"{key.path}.{name.strip()}", MASK if is_secret(name) else value, one.source


def _print(rows: list[Row], settings: Settings) -> None:
    # Of a line in a file the name of the setting is left out: it stands beside it.
    cells = [(name, NOTHING if value is None else value, source.partition(": ")[0]) for name, value, source in rows]
    lines = table(cells)
    for section in SECTIONS:
        for line in lines:
            if line.startswith(f"{section}."):
                click.echo(line)
    if settings.file is None:
        click.echo("no file: there is no driftline.toml here, and none is named", err=True)


def _check(settings: Settings, home: Path) -> None:
    """Raise everything that is wrong, as any other command would."""
    run, task = settings.choice.text(RUN_NAME), settings.choice.text(TASK_NAME)
    settings.run("run" if run is None else run)
    settings.connection(home)
    for key in keys_in("task", "train", "role"):
        settings.value(key)
    settings.broker_nodes()
    settings.problems.attempt(lambda: None if task is None else check_task(task), None)
    settings.problems.check()
