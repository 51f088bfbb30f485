"""The launcher's supervision, with processes that only pretend to be servers and workers."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from driftline.broker.memory import MemoryBroker
from driftline.cli.options import Words
from driftline.cli.server import server
from driftline.cli.worker import worker
from driftline.config.run_settings import RunSettings
from driftline.errors import DriftlineError, IntegrityError, MemberRemoved, RunError, RunRefused, UsageError
from driftline.launch import launcher as module
from driftline.launch.background import Background
from driftline.launch.launcher import Launcher
from driftline.launch.plan import Plan
from driftline.runs.naming import existing_run, unused_names, unused_run_name
from driftline.runtime.outcome import check_finish
from driftline.schemas.effects import Finish
from driftline.schemas.run.consistency import Consistency
from driftline.schemas.run.local_work import LocalWork
from driftline.schemas.run.schedule import Schedule
from driftline.training.task import Task
from tests.unit.told_run import Ledger, told, write

STEADY = "import sys; sys.stdin.read()"


def failing(code: int, words: str = "the reason") -> str:
    """Return the program of a process that says something and fails."""
    return f"import sys; print({words!r}, flush=True); sys.exit({code})"


@dataclass(frozen=True, kw_only=True)
class Pretended(Plan):
    """A plan whose processes run programs of ours."""

    programs: dict[str, str] = field(default_factory=dict)

    def server_command(self, name: str) -> list[str]:
        """Run the program of this name."""
        return [sys.executable, "-c", self.programs.get(name, STEADY)]

    def worker_command(self, name: str, mark: bytes = b"") -> list[str]:
        """Run the program of this name; it bears no mark."""
        del mark
        return self.server_command(name)


@dataclass
class Played:
    """A launcher and what it said."""

    launcher: Launcher
    said: list[str]

    def error(self) -> DriftlineError:
        """Run to the failure, and return it."""
        with pytest.raises(DriftlineError) as failure:
            self.launcher.run()
        return failure.value


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Played]:
    """Make a launcher of two servers and two workers."""
    monkeypatch.setattr(module, "ALONE_S", 0.3)
    monkeypatch.setattr(module, "EVALUATOR_WAIT_S", 0.1)

    def make(load: Callable[[], Task] = lambda: None, **programs: str) -> Played:  # type: ignore[assignment,return-value]
        plan = Pretended(
            task="digits",
            settings=RunSettings(run="pretended", workers=2, steps=3),
            servers=("server_1", "server_2"),
            workers=("worker_1", "worker_2"),
            bootstrap_servers="127.0.0.1:9",
            logs=tmp_path,
            programs=programs,
        )
        said: list[str] = []
        loading = Background(load, "load")
        return Played(
            Launcher(MemoryBroker(), plan, load_task=loading, show=lambda _progress: None, say=said.append), said
        )

    return make


def test_a_run_cannot_start_without_one_of_its_workers(play: Callable[..., Played]) -> None:
    """It would wait for ever; the reason is the end of the worker's log."""
    error = play(worker_2=failing(1)).error()
    assert type(error) is RunError
    assert "worker_2 ended with code 1: the run cannot start without its 2 workers" in str(error)
    assert "  the reason" in str(error)


@pytest.mark.parametrize(("code", "kind"), [(2, RunRefused), (3, IntegrityError), (1, RunError)])
def test_the_exit_code_of_a_process_becomes_that_of_the_command(
    code: int, kind: type[Exception], play: Callable[..., Played]
) -> None:
    """A refused worker refuses the command."""
    error = play(worker_1=failing(code), worker_2=failing(code)).error()
    assert type(error) is kind


def test_a_lost_server_is_named_and_the_last_one_ends_the_run(play: Callable[..., Played]) -> None:
    """The others take over its partitions until none is left."""
    soon = "import sys, time; time.sleep(1.5); sys.exit('out of disk')"
    played = play(server_1=failing(1, "no luck"), server_2=soon)
    error = played.error()
    assert played.said[0].startswith("server_1 ended with code 1; server_2 goes on without it")
    assert "no luck" in played.said[0]
    assert "server_2 ended with code 1: no server of this command is left" in str(error)
    assert "out of disk" in str(error)


def test_processes_that_were_all_stopped_end_the_command(play: Callable[..., Played]) -> None:
    """A clean end of all workers, but no end of the run: somebody else stopped them."""
    error = play(worker_1="", worker_2="").error()
    assert "every worker of this command was stopped before the run ended" in str(error)


def test_a_task_that_cannot_be_made_ends_everything(play: Callable[..., Played]) -> None:
    """What is wrong with it is the error, and no process is left."""

    def load() -> Task:
        raise UsageError("no such setting")

    played = play(load)
    assert str(played.error()) == "no such setting"
    assert not played.launcher._children.living()


def test_an_interruption_ends_every_process_in_time(
    play: Callable[..., Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while training."""
    played = play()

    def interrupt(_progress: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(played.launcher, "_show", interrupt)
    began_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        played.launcher.run()
    assert not played.launcher._children.living()
    assert time.monotonic() - began_s < 10
    assert played.said == ["stopping the workers, then the servers; Ctrl-C ends them at once"]


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
    assert words == (
        "-m driftline worker --run r --name worker-1 --workers 2 --epochs 5 --mode sync --staleness 0 "
        "--buffer 0 --weighting none --seed 7 --partitions 8 --snapshot-every 100 --retain all "
        "--gone-after 12 --set channels=4 --bootstrap-servers h:1 --stop-with-stdin -- digits"
    )
    assert plan.server_command("server-1")[2:] == [
        *("driftline", "server", "r", "--name", "server-1", "--bootstrap-servers", "h:1", "--stop-with-stdin")
    ]


def test_every_process_serves_figures_at_a_port_of_its_own() -> None:
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
        with server.make_context("server", plan.server_command(name)[4:]) as context, context.scope():
            assert Words().metrics() == plan.addresses()[name]
    for name in plan.workers:
        with worker.make_context("worker", plan.worker_command(name)[4:]) as context, context.scope():
            assert Words().metrics() == plan.addresses()[name]


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
        with worker.make_context("worker", plan.worker_command("w")[4:]) as context, context.scope():
            assert Words().run("r") == settings


# -- names -----------------------------------------------------------------------------------------------------------


def test_a_default_name_gets_the_first_free_number() -> None:
    """Also if somebody is about to take one."""
    broker = MemoryBroker()
    assert unused_run_name(broker, "digits") == "digits"
    for run in ("digits", "digits-2"):
        write(broker, run, [])
    assert unused_run_name(broker, "digits") == "digits-3"
    assert unused_run_name(broker, "digits", {"digits-3"}) == "digits-4"


def test_a_run_that_ended_is_refused_with_the_way_out() -> None:
    """Nothing can be added to it."""
    broker = MemoryBroker()
    write(broker, "told", told().values)
    with pytest.raises(RunRefused, match=r"ended at version 3 .*runs delete told"):
        existing_run(broker, "told")


def test_a_run_that_goes_on_without_anybody_is_joined_under_the_old_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that its workers read the data that they would have read."""
    monkeypatch.setattr("driftline.runs.naming.LISTEN_S", 0.1)
    broker = MemoryBroker()
    write(broker, "told", Ledger().start().values)
    existing = existing_run(broker, "told")
    assert existing is not None
    assert unused_names("worker", 2, existing.workers) == ("worker-1", "worker-2")
    assert unused_names("worker", 2, {"worker-1"}) == ("worker-2", "worker-3")
    assert existing_run(broker, "no-such-run") is None


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("the log contradicts itself", IntegrityError),
        ("refused", RunRefused),
        ("removed", MemberRemoved),
        ("x", RunError),
    ],
)
def test_how_a_state_machine_failed_decides_the_exit_code(reason: str, kind: type[DriftlineError]) -> None:
    """And an empty failure is a success, whatever the reason."""
    check_finish(Finish(reason))
    with pytest.raises(DriftlineError, match="why") as failure:
        check_finish(Finish(reason, "why"))
    assert type(failure.value) is kind
