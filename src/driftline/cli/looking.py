"""``driftline status``, ``top``, ``show`` and ``verify``: look at a run, and change nothing."""

import dataclasses
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import click
from rich.console import Console
from rich.live import Live

from driftline.broker.port import Broker
from driftline.cli.screens.keyboard import keys
from driftline.cli.screens.proof import report_lines
from driftline.cli.screens.records import lines_of
from driftline.cli.screens.tables import say, status_lines
from driftline.cli.screens.top import frame, plain_lines
from driftline.cli.stopping import terminated_is_interrupted
from driftline.config.settings import Settings
from driftline.errors import IntegrityError, RunError, UsageError
from driftline.ledger.entering.reading import check_run_exists, read_ledger
from driftline.observe.records.annotated_ledger import read_annotated_ledger
from driftline.observe.records.lookup import read_difference, read_record
from driftline.observe.records.model_difference import ModelDifference
from driftline.observe.records.record_view import RecordView, view_record
from driftline.observe.records.selection import RecordPosition, Selection, TwoVersions, parse_selection
from driftline.observe.records.version_view import VersionView, check_version, view_version
from driftline.observe.run.summary import read_status
from driftline.observe.run.watch import RunWatch
from driftline.replay.verify.reading import verify_run

KEY_S = 0.2
READ_S = 0.5
"""Longest time between two changes of the screen: waiting for a key, then taking what has arrived meanwhile."""

FRAME_LINES = 10
"""Ledger lines of a frame that is printed."""

QUIET_S = 5.0
"""Silence that the screen reports: members of a run in training write four times a second."""

_HEAD = re.compile(r"[0-9a-fA-F]{16,64}")

T = TypeVar("T")


def status(settings: Settings, *, home: Path, as_json: bool) -> None:
    """Show where a run stands."""
    with _opened(settings, home) as (broker, run):
        state = read_ledger(broker, run, say)
        seen = read_status(broker, run, state)
    _print(seen.to_dict(), status_lines(seen), as_json=as_json)


def show(settings: Settings, *, what: str, home: Path, as_json: bool) -> None:
    """Show a record, a version, or the difference of two versions."""
    with _opened(settings, home, lambda: parse_selection(what)) as (broker, run):
        seen = _look(broker, run, parse_selection(what))
    _print(dataclasses.asdict(seen), lines_of(seen), as_json=as_json)


def verify(settings: Settings, *, expect: str | None, home: Path, as_json: bool) -> None:
    """Prove a run."""
    with _opened(settings, home, lambda: _check_head(expect)) as (broker, run):
        report = verify_run(broker, run, expect=expect or "", say=say)
    _print(report.to_dict(), report_lines(run, report), as_json=as_json)
    if report.first_bad is not None:
        raise IntegrityError(f"run {run} is not what its log says: {report.first_bad}")
    if not report.is_proven:
        raise RunError(
            f"nothing of run {run} is proven: its ledger records no digest yet. They come with its first versions; "
            "look again when `driftline status` shows one"
        )


def top(settings: Settings, *, home: Path, as_json: bool) -> None:
    """Watch a run live."""
    with terminated_is_interrupted(), _opened(settings, home) as (broker, run), RunWatch(broker, run) as watch:
        watch.catch_up(say)
        console = Console()
        if not as_json and sys.stdout.isatty() and not console.is_dumb_terminal:
            _watch(watch, console)
            return
        view = watch.view(FRAME_LINES)
    _print(view.to_dict(), plain_lines(view), as_json=as_json)


@contextmanager
def _opened(settings: Settings, home: Path, check: Callable[[], object] = lambda: None) -> Iterator[tuple[Broker, str]]:
    """Give a Kafka and the name of a run that it holds; ``check`` refuses what else is wrong."""
    run, connection = settings.run_name("RUN"), settings.connection(home)
    settings.problems.attempt(check, None)
    settings.problems.check()
    with connection.readable(say) as kafka:
        check_run_exists(kafka.broker, run)
        yield kafka.broker, run


def _print(seen: object, lines: Iterable[str], *, as_json: bool) -> None:
    for line in [json.dumps(seen, allow_nan=False)] if as_json else lines:
        click.echo(line)


def _look(broker: Broker, run: str, wanted: Selection) -> RecordView | VersionView | ModelDifference:
    if isinstance(wanted, RecordPosition):
        position, found = read_record(broker, run, wanted)
        # The ledger is read last, so that it holds the record.
        return view_record(position, found, read_annotated_ledger(broker, run, say))
    ledger = read_annotated_ledger(broker, run, say)
    if ledger.contradiction:
        say(f"the ledger contradicts itself, so it ends early: {ledger.contradiction}")
    if isinstance(wanted, TwoVersions):
        both = (check_version(wanted.first, ledger.state), check_version(wanted.second, ledger.state))
        return read_difference(broker, run, ledger.state, both, say)
    return view_version(run, check_version(wanted.version, ledger.state), ledger)


def _check_head(expect: str | None) -> None:
    if expect is not None and not _HEAD.fullmatch(expect):
        raise UsageError(
            f"--expect: {expect!r} is not 16 to 64 hexadecimal digits; `driftline verify` shows a run's head"
        )


def _watch(watch: RunWatch, console: Console) -> None:
    with keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as screen:
        while True:
            width, height = console.size
            quiet_s = time.monotonic() - watch.quiet_since_s
            quiet_s = quiet_s if quiet_s > QUIET_S and watch.ledger.state.ended is None else 0.0
            screen.update(frame(watch.view(height), width, height, quiet_s), refresh=True)
            if pressed(KEY_S) in ("q", "Q"):
                return
            watch.read(READ_S)
