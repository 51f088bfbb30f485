"""``driftline server``, ``worker`` and ``evaluator``: one member of a run, in the foreground."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from driftline.cli.lazily import lazily
from driftline.cli.stopping import Stopping, stoppable
from driftline.config.keys import RUN_NAME
from driftline.config.members import check_member_name, own_name
from driftline.config.sections import RoleSection, TaskSection
from driftline.config.settings import Settings
from driftline.producers.member import read_mark
from driftline.runtime.outcome import check_finish
from driftline.telemetry import identify
from driftline.telemetry.exporting import exporting
from driftline.telemetry.metrics import WatchMetrics
from driftline.training.task.loading import load_task, read_measured_task, read_task

if TYPE_CHECKING:
    from driftline.consumers.server.serving import serve, wait_for_run
    from driftline.training.task.evaluating import evaluate_run
    from driftline.training.task.worker import work
else:  # they import torch or a server, which take long: settings that are wrong are refused before
    serve = lazily("driftline.consumers.server.serving:serve")
    wait_for_run = lazily("driftline.consumers.server.serving:wait_for_run")
    evaluate_run = lazily("driftline.training.task.evaluating:evaluate_run")
    work = lazily("driftline.training.task.worker:work")


class Member:
    """What every role is given, checked.

    Args:
        settings: as given; the caller checks their problems.
        role: ``server``, ``worker`` or ``evaluator``.
        run: name of the run.
        name: of the member; None for one of its own.
        home: folder of this machine's broker.
    """

    def __init__(self, settings: Settings, role: str, run: str, name: str | None, home: Path) -> None:
        self.run, self.role = run, role
        self.connection = settings.connection(home)
        self.patience_s = settings.section(RoleSection).patience
        self.name = settings.problems.attempt(
            lambda: check_member_name(own_name(role) if name is None else name, role), ""
        )
        self._metrics = settings.metrics()

    @contextmanager
    def at_work(self, *, stop_with_stdin: bool) -> Iterator[tuple[Stopping, WatchMetrics]]:
        """Let the member log, stop cleanly, and serve its metrics."""
        identify(run=self.run, role=self.role, member=self.name)
        logger = logging.getLogger("driftline")
        logger.setLevel(min(logger.getEffectiveLevel(), logging.INFO))
        with (
            stoppable(f"{self.role} {self.name} of run {self.run}", with_stdin=stop_with_stdin) as stopping,
            exporting(self._metrics, run=self.run, role=self.role, member=self.name) as watch,
        ):
            yield stopping, watch


def server(settings: Settings, *, name: str | None, home: Path, stop_with_stdin: bool) -> None:
    """Serve a run until it ends."""
    member = Member(settings, "server", settings.run_name("RUN"), name, home)
    settings.problems.check()
    with member.at_work(stop_with_stdin=stop_with_stdin) as (stopping, watch), member.connection.running() as kafka:
        finish = serve(
            kafka.broker, member.run, member.name, stop=stopping.begin(), patience_s=member.patience_s, watch=watch
        )
        check_finish(finish)
    click.echo(f"server {member.name}: {finish.reason}")


def worker(settings: Settings, *, name: str | None, mark: str, home: Path, stop_with_stdin: bool) -> None:
    """Compute gradients for a run until it ends."""
    task, run = read_task(settings), settings.name(RUN_NAME, "--run")
    member = Member(settings, "worker", run, name, home)
    wanted, pairs = settings.run(run or "unnamed"), settings.section(TaskSection).settings
    own_mark = settings.problems.attempt(lambda: read_mark(mark), b"")
    settings.problems.check()
    member.connection.check_known()
    with member.at_work(stop_with_stdin=stop_with_stdin) as (stopping, watch):
        found = load_task(task, pairs)
        with member.connection.running() as kafka:
            finish = work(
                kafka.broker,
                wanted,
                member.name,
                found,
                stop=stopping.begin(),
                patience_s=member.patience_s,
                mark=own_mark,
                watch=watch,
            )
            check_finish(finish)
    click.echo(f"worker {member.name}: {finish.reason}")


def evaluator(settings: Settings, *, name: str | None, home: Path, stop_with_stdin: bool) -> None:
    """Measure versions of a run until it ends."""
    task = read_measured_task(settings)
    member = Member(settings, "evaluator", settings.run_name("--run"), name, home)
    pairs = settings.section(TaskSection).settings
    settings.problems.check()
    member.connection.check_known()
    with member.at_work(stop_with_stdin=stop_with_stdin) as (stopping, watch):
        found = load_task(task, pairs)
        with member.connection.running() as kafka:
            stop = stopping.begin()
            if not wait_for_run(kafka.broker, member.run, stop=stop, patience_s=member.patience_s):
                return
            finish, state = evaluate_run(
                kafka.broker, member.run, member.name, lambda: found, stop=stop, watch_metrics=watch
            )
            check_finish(finish)
    measured = max(state.evaluations, default=None)
    metrics = {} if measured is None else state.evaluations[measured].metrics
    values = ", ".join(f"{metric} {value:.4f}" for metric, value in metrics.items())
    click.echo(
        f"evaluator {member.name}: {finish.reason}; {values or 'nothing was measured'} (version {measured or 0})"
    )
