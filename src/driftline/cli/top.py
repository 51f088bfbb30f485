"""``driftline top``: a run, live."""

import json
import sys
import time
from typing import TYPE_CHECKING

import click

from driftline.cli.options import Words, connection_options, json_option, say
from driftline.config.keys import RUN_NAME

if TYPE_CHECKING:
    from driftline.observe.run.watch import RunWatch

KEY_S = 0.2
READ_S = 0.5
"""At most so long the screen stands still: waiting for a key, then taking what has arrived meanwhile."""

FRAME_LINES = 10
"""Ledger lines of a frame that is printed."""

QUIET_S = 5.0
"""After so long without a record the screen says so: members of a run in training speak four times a second."""


@click.command(epilog="Example: driftline top my-run")
@click.argument("run", required=False, envvar=RUN_NAME.variable)
@connection_options
@json_option
def top(run: str | None, *, as_json: bool, **_settings: object) -> None:
    """Watch RUN live: workers and whom they wait for, servers and what they have applied, the last decisions.

    On a terminal the screen changes by itself; q ends it, and so does Ctrl-C. Elsewhere one frame is printed, for
    example by: driftline top my-run | cat. Joins no group and writes nothing.
    """
    from driftline.broker.topics import check_run_name  # noqa: PLC0415 - keeps --help fast

    words = Words()
    run = words.name(RUN_NAME, "RUN")
    words.problems.attempt(lambda: check_run_name(run) if run else "", "")
    connection = words.connection()
    words.problems.check()

    from driftline.cli.signals import terminated_is_interrupted  # noqa: PLC0415 - not needed to refuse
    from driftline.ledger.entering.reading import check_run_exists  # noqa: PLC0415
    from driftline.observe.run.watch import RunWatch  # noqa: PLC0415

    with terminated_is_interrupted(), connection.readable(say) as kafka:
        check_run_exists(kafka.broker, run)
        with RunWatch(kafka.broker, run) as watch:
            watch.catch_up(say)
            if as_json:
                click.echo(json.dumps(watch.view(FRAME_LINES).to_dict(), allow_nan=False))
            elif sys.stdout.isatty():
                _watch(watch)
            else:
                _print(watch)


def _print(watch: "RunWatch") -> None:
    from driftline.cli.top_screen import plain_lines  # noqa: PLC0415 - imports rich

    for line in plain_lines(watch.view(FRAME_LINES)):
        click.echo(line)


def _watch(watch: "RunWatch") -> None:
    from rich.console import Console  # noqa: PLC0415 - imports rich
    from rich.live import Live  # noqa: PLC0415

    from driftline.cli.keyboard import keys  # noqa: PLC0415
    from driftline.cli.top_screen import frame  # noqa: PLC0415

    console = Console()
    if console.is_dumb_terminal:
        _print(watch)
        return
    with keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as screen:
        while True:
            width, height = console.size
            quiet_s = time.monotonic() - watch.quiet_since_s
            quiet_s = quiet_s if quiet_s > QUIET_S and watch.story.state.ended is None else 0.0
            screen.update(frame(watch.view(height), width, height, quiet_s), refresh=True)
            if pressed(KEY_S) in ("q", "Q"):
                return
            watch.read(READ_S)
