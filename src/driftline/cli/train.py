"""``driftline train`` and ``chaos``: everything on one machine, from start to summary."""

import json
import os
import shutil
import sys
import time
from pathlib import Path

import click

from driftline.cli import commands
from driftline.cli.options import DEFAULT_HOME
from driftline.cli.screens.tables import summary_lines
from driftline.cli.stopping import terminated_is_interrupted
from driftline.config.connection import Connection
from driftline.config.settings import Settings
from driftline.launch.progress_line import ProgressLine
from driftline.launch.training import read_request
from driftline.launch.training import train as train_here
from driftline.runtime.outcome import check_finish
from driftline.schemas.effects import Finish


def train(settings: Settings, *, faults: str | None, home: Path, as_json: bool) -> str:
    """Train a task; return the name of the run."""
    request = read_request(settings, home, faults)
    began_s, line = time.monotonic(), ProgressLine()
    if settings.file is not None:
        line.say(f"settings from {settings.file}")
    with terminated_is_interrupted():
        try:
            outcome = train_here(request, line.show, line.say)
        finally:
            line.clear()
    seen = outcome.status
    lines = summary_lines(seen, outcome.training_s, time.monotonic() - began_s)
    lines += [f"  {one}" for one in outcome.disturbances]
    for text in [*lines, f"look further: {_program()} status {seen.run}{_where(request.connection)}"]:
        click.echo(text, err=as_json)
    if as_json:
        click.echo(json.dumps(outcome.to_dict(), allow_nan=False))
    if seen.ended is not None:
        check_finish(Finish(seen.ended.reason, seen.ended.failure))
    return seen.run


def chaos(*, faults: str, training: tuple[str, ...]) -> None:
    """Train while faults happen, then prove the run."""
    parent = click.get_current_context().parent
    with commands.train.make_context("train", ["--chaos", faults, *training], parent=parent) as inner:
        run = commands.train.invoke(inner)
        params = {"bootstrap_servers": "--bootstrap-servers", "home": "--home", "config": "--config"}
        where = [
            word
            for name, option in params.items()
            if inner.params[name] is not None  # what variables and files say `verify` finds itself
            for word in (option, str(inner.params[name]))
        ]
    click.echo(f"proving run {run}", err=True)
    with commands.verify.make_context("verify", [run, *where], parent=parent) as inner:
        commands.verify.invoke(inner)


def _program() -> str:
    """Return how this command can be called again: it may lie in an environment that is not active."""
    typed = sys.argv[0]
    needs_path = Path(typed).name == "driftline" and os.sep in typed and shutil.which("driftline") is None
    return typed if needs_path else "driftline"


def _where(connection: Connection) -> str:
    """Return the options by which another command finds the same Kafka, as far as they are not the default."""
    if connection.bootstrap_servers is not None:
        return f" --bootstrap-servers {connection.bootstrap_servers}"
    return "" if connection.home == DEFAULT_HOME else f" --home {connection.home}"
