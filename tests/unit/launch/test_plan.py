"""Command lines of a run's processes say all of its settings, and addresses of their metrics."""

from pathlib import Path

from driftline.cli.commands import server, worker
from driftline.cli.options import settings_of
from driftline.config.keys import RUN
from driftline.config.run_settings import RunSettings
from driftline.launch.plan import Plan
from driftline.schemas.run.consistency import Consistency
from driftline.schemas.run.local_work import LocalWork
from driftline.schemas.run.schedule import Schedule


def test_the_command_lines_hold_every_setting_and_no_property() -> None:
    """A worker that is started by hand with the same words computes the same."""
    plan = Plan(
        task="digits",
        task_settings={"channels": "4"},
        settings=RunSettings(run="r", workers=2, epochs=5, seed=7, partitions=8),
        servers=("server-1",),
        workers=("worker-1", "worker-2"),
        bootstrap_servers="h:1",
        environment={"DRIFTLINE_KAFKA_PROPERTIES": "sasl.password=x"},
        logs=Path(),
    )
    words = " ".join(plan.worker_command("worker-1")[1:])
    assert words.startswith("-m driftline worker --name worker-1 --run r --workers 2 --seed 7 --partitions 8 ")
    assert words.endswith(" --set channels=4 --bootstrap-servers h:1 --stop-with-stdin -- digits")
    assert {key.option for key in RUN if f" {key.option} " not in words} == {"--steps"}
    assert plan.server_command("server-1")[2:] == [
        *("driftline", "server", "r", "--name", "server-1", "--bootstrap-servers", "h:1", "--stop-with-stdin")
    ]


def test_every_process_serves_metrics_at_a_port_of_its_own() -> None:
    """They count up from the one that was asked for: servers, workers, and the evaluator of the command itself."""
    plan = Plan(
        task="digits",
        settings=RunSettings(run="r", steps=9),
        servers=("server-1", "server-2"),
        workers=("worker-1", "worker-2"),
        bootstrap_servers="h:1",
        logs=Path(),
        metrics=("::1", 9464),
    )
    names = ("server-1", "server-2", "worker-1", "worker-2", "evaluator-r")
    assert plan.addresses() == {name: ("::1", 9464 + place) for place, name in enumerate(names)}
    for name in plan.servers:
        with server.make_context("server", plan.server_command(name)[4:]) as context:
            assert settings_of(context).metrics() == plan.addresses()[name]
    for name in plan.workers:
        with worker.make_context("worker", plan.worker_command(name)[4:]) as context:
            assert settings_of(context).metrics() == plan.addresses()[name]


def test_the_command_line_of_a_worker_reads_back_as_the_same_settings() -> None:
    """Bounds and schedule included, whatever the mode makes of a word that is left out."""
    for bounds in (
        Consistency(mode="ssp", staleness=3, drop_slowest=1, max_staleness=4, on_stale="damp"),
        Consistency(mode="async", buffer=1, weighting="none", max_age_s=2.5),
        Consistency(mode="buffered", buffer=4, ahead=2, weighting="polynomial", exponent=1.5),
    ):
        settings = RunSettings(
            run="r",
            steps=9,
            consistency=bounds,
            schedule=Schedule(warmup=3, decay="cosine", final=0.1),
            local=LocalWork(clip_norm=1.0, steps=4, clock_s=0.25),
        )
        plan = Plan(task="digits", settings=settings, servers=(), workers=("w",), bootstrap_servers="h:1", logs=Path())
        with worker.make_context("worker", plan.worker_command("w")[4:]) as context:
            assert settings_of(context).run("r") == settings
