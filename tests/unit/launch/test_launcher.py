"""The launcher's supervision, with processes that only pretend to be servers and workers."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from driftline.config.run_settings import RunSettings
from driftline.errors import DriftlineError, IntegrityError, MemberRemoved, RunError, RunRefused, UsageError
from driftline.launch import launcher as module
from driftline.launch.launcher import Launcher, in_background
from driftline.launch.plan import Plan
from driftline.runtime.outcome import check_finish
from driftline.schemas.effects import Finish
from driftline.testing.memory import MemoryBroker
from driftline.training.task import Task

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
        """Run the program of this name; its command line has no mark."""
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
        loading = in_background(load, "load")
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
    """A clean end of all workers, but no end of the run: another command stopped them."""
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
