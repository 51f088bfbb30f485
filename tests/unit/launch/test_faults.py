"""Scripts of faults: what they say, what is refused, and what happens to whom."""

import sys
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from driftline.cli import main
from driftline.errors import ConfigError
from driftline.launch.chaos import Chaos
from driftline.launch.faults import Action, Fault, parse_script, target_problems
from driftline.launch.processes import Child, Children
from driftline.testing.memory import MemoryBroker
from tests.support.small_ledger import whole_run, write

TIMES = "give one such as 500ms, 10s or 2m, of at most a day, or: for ever"
STEADY = [sys.executable, "-c", "import sys; sys.stdin.read()"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("kill server-1@200", Fault(Action.KILL, "server-1", 200)),
        ("pause worker-3@350 for 10s", Fault(Action.PAUSE, "worker-3", 350, 10.0)),
        ("stop broker-2 @ 400 for 500 ms", Fault(Action.STOP, "broker-2", 400, 0.5)),
        ("kill all servers@150", Fault(Action.KILL, "servers", 150)),
        ("kill  everything@0 for ever", Fault(Action.KILL, "everything", 0, None)),
        ("kill leader@7 for 2m", Fault(Action.KILL, "leader", 7, 120.0)),
    ],
)
def test_a_fault_is_read_and_written(text: str, fault: Fault) -> None:
    """What is written of it is a script again, of the same fault."""
    assert parse_script(text) == (fault,)
    assert parse_script(str(fault)) == (fault,)


def test_the_faults_of_a_script_come_by_version() -> None:
    """Whatever the order in which they are written; commas and lines are the same."""
    assert [str(one) for one in parse_script("kill workers@9, kill leader@2\npause server-1@5 for 3s,")] == [
        "kill leader@2",
        "pause server-1@5 for 3s",
        "kill workers@9",
    ]


def test_all_problems_of_a_script_are_reported_at_once() -> None:
    """With the word that may have been meant."""
    script = "kil server-1@5, kill coordinater@-1, pause worker-0@7 for 10 parsecs, kill it, stop all leader@4"
    with pytest.raises(ConfigError) as refused:
        parse_script(script)
    assert refused.value.problems == (
        "'kil server-1@5': 'kil' is no action; did you mean kill?",
        "'kill coordinater@-1': 'coordinater' is no target; did you mean coordinator?",
        "'kill coordinater@-1': '-1' is no version: give a whole number from 0 on",
        "'pause worker-0@7 for 10 parsecs': 'worker-0' is no target; did you mean worker-1?",
        "'pause worker-0@7 for 10 parsecs': '10 parsecs' is no time: " + TIMES,
        "'kill it': a fault is ACTION TARGET@VERSION, such as: kill server-1@200 for 5s",
        "'stop all leader@4': 'all leader' is no target; did you mean leader?",
    )


@pytest.mark.parametrize("text", ["", " , ,"])
def test_a_script_without_a_fault_is_refused(text: str) -> None:
    """It is a typing error."""
    with pytest.raises(ConfigError, match="no fault in it"):
        parse_script(text)


def test_a_fault_without_a_possible_target_is_refused() -> None:
    """Who is there is known before anything is started."""
    faults = parse_script("kill server-3@1, kill worker-1@2, kill leader@3, kill worker-2@90")
    found = target_problems(faults, servers=["server-1", "server-2"], workers=["worker-1"], nodes=[], last=80)
    assert found == [
        "'kill server-3@1': there is no server-3; there are server-1, server-2",
        "'kill leader@3': no broker is started here, and only what is started here may be disturbed",
        "'kill worker-2@90': there is no worker-2; there are worker-1",
        "'kill worker-2@90': the run ends at version 80; name an earlier one",
    ]


class Stage:
    """Processes that do nothing, and a run whose ledger is written at once."""

    def __init__(self, folder: Path, script: str) -> None:
        self.broker = MemoryBroker()
        self.said: list[str] = []
        self.children = Children(folder)
        for name in ("server-1", "server-2", "worker-1"):
            self.start(name, name.partition("-")[0])
        self.chaos = Chaos(
            self.broker, "told", parse_script(script), children=self.children, start_process=self.start, nodes=None,
            say=self.said.append,
        )  # fmt: skip

    def start(self, name: str, role: str) -> Child:
        """Start one."""
        return self.children.start(name, role, STEADY)

    def play(self) -> None:
        """Write the ledger of a whole run, and wait until all faults have happened and are undone."""
        self.chaos.start()
        write(self.broker, "told", whole_run().values)
        deadline_s = time.monotonic() + 30.0
        while time.monotonic() < deadline_s:
            if all(one.version is not None for one in self.chaos.disturbances) and not self.chaos.is_undoing:
                break
            threading.Event().wait(0.02)
        self.chaos.stop()


def test_what_is_killed_is_started_again(tmp_path: Path) -> None:
    """The coordinator is the one that leads the current term; the others are left alone."""
    stage = Stage(tmp_path, "kill coordinator@1 for 50ms")
    try:
        stage.play()
        (one,) = stage.chaos.disturbances
        assert one.hit == ("server-1",)
        assert one.version is not None
        assert one.version >= 1
        assert one.undone_s is not None
        first = stage.children.all[0]
        assert (first.code, first.disturbed) == (-9, True)
        assert [child.name for child in stage.children.living()] == ["server-2", "worker-1", "server-1"]
        assert stage.said == ["kill coordinator@1 for 0.05s: server-1"]
    finally:
        stage.children.kill()


def test_what_is_killed_for_ever_stays_away_and_what_is_paused_goes_on(tmp_path: Path) -> None:
    """A pause that is not over ends with the run, so that no process stays paused."""
    stage = Stage(tmp_path, "kill workers@0 for ever, pause server-2@1 for ever")
    try:
        stage.play()
        assert stage.children.all[2].process.wait(10.0) == -9
        assert [child.name for child in stage.children.living()] == ["server-1", "server-2"]
        assert [one.undone_s for one in stage.chaos.disturbances] == [None, None]
        assert stage.children.end((("server", 10.0),)) == []  # SIGTERM reaches it
    finally:
        stage.children.kill()


def test_the_command_line_says_what_is_wrong_with_a_script_beside_everything_else(tmp_path: Path) -> None:
    """Before anything is started or made; faults do not happen to a broker that was not started here."""
    home = tmp_path / "home"
    script = "kill worker-4@5, kill leader@6, kill server-1@200, kil it@7"
    words = ["train", "digits", "--workers", "0", "--chaos", script, "--bootstrap-servers", "127.0.0.1:9"]
    refused = CliRunner().invoke(main, [*words, "--home", str(home)])
    assert refused.exit_code == 2
    assert "zero workers compute nothing" in refused.output
    assert "--chaos: 'kil it@7': 'kil' is no action; did you mean kill?" in refused.output
    assert "--chaos: 'kill leader@6': no broker is started here" in refused.output
    words[3] = "3"
    words[5] = script.removesuffix(", kil it@7")
    refused = CliRunner().invoke(main, [*words, "--home", str(home)])
    assert refused.exit_code == 2
    assert "--chaos: 'kill worker-4@5': there is no worker-4; there are worker-1, worker-2, worker-3" in refused.output
    assert "--chaos: 'kill leader@6': no broker is started here" in refused.output
    assert "--chaos: 'kill server-1@200': the run ends at version 200; name an earlier one" in refused.output
    assert not home.exists()
