"""The progress line shows what fits, the most important first."""

import io

import pytest

from driftline.launch.progress_line import ProgressLine, progress_words
from driftline.ledger.run_state import RunState
from driftline.observe.run.progress import Progress, ProgressTracker
from tests.support.small_ledger import ELEMENTS, G1, Ledger, use, whole_run

RUNNING = Progress(
    run="digits",
    phase="",
    version=7,
    steps=300,
    loss=0.5,
    metrics={"accuracy": 0.75, "loss": 1.0},
    workers=1,
    waiting_share=0.25,
    wire_bytes=2_500_000,
)


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        """Be a terminal."""
        return True


def fold(ledger: Ledger) -> RunState:
    """Read a whole ledger."""
    state = RunState()
    for offset, value in enumerate(ledger.values):
        state.read(offset, value)
    return state


def test_the_line_names_everything_and_the_most_wanted_first() -> None:
    """A narrow terminal shows those that fit."""
    assert "  ".join(progress_words(RUNNING)) == (
        "digits  version 7/300  loss 0.500  accuracy 0.750  1 worker  waiting 25%  staleness 0  2.5 MB  test loss 1.000"
    )


def test_before_the_first_version_it_says_what_is_waited_for() -> None:
    """Nothing is made up."""
    watching = ProgressTracker("told")
    assert progress_words(watching.newest) == ["told", "starting"]
    watching.update(RunState())
    assert progress_words(watching.newest) == ["told", "waiting for the run to start"]
    watching.update(fold(Ledger().start()))
    assert progress_words(watching.newest) == ["told", "version 0/3", "computing the first version"]


def test_a_look_at_the_fold_counts_what_was_written() -> None:
    """However often it looks."""
    watching = ProgressTracker("told")
    watching.update(fold(Ledger().start().version(1, use(G1, 1))))
    watching.update(fold(whole_run()))
    seen = watching.newest
    assert (seen.version, seen.phase, seen.workers, seen.metrics["accuracy"]) == (3, "ended", 1, 0.75)
    assert seen.wire_bytes == (4 + 1 + 3) * ELEMENTS * 4


def test_without_a_terminal_there_are_plain_lines_and_few_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """One every two seconds, but always the last."""
    now_s = 100.0
    monkeypatch.setattr("driftline.launch.progress_line.time.monotonic", lambda: now_s)
    stream = io.StringIO()
    line = ProgressLine(stream)
    for version in range(1, 61):
        now_s += 0.1
        line.show(Progress(run="r", phase="", version=version, steps=60))
    line.show(Progress(run="r", phase="ended", version=60, steps=60))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[-1].startswith("r  version 60/60  ended")
    assert "\x1b" not in stream.getvalue()


def test_on_a_terminal_a_long_phase_counts_its_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each phase its own; a line that stands still looks like a hang."""
    monkeypatch.setenv("COLUMNS", "80")
    now_s = 100.0
    monkeypatch.setattr("driftline.launch.progress_line.time.monotonic", lambda: now_s)
    stream = Terminal()
    line = ProgressLine(stream)
    for phase, takes_s in (("starting", 9), ("waiting for 3 workers to be ready", 3), ("", 5), ("ended", 4)):
        for _ in range(takes_s):
            line.show(Progress(run="r", phase=phase, version=0, steps=0))
            now_s += 1.0
    shown = [one.strip() for one in stream.getvalue().split("\r\x1b[K")]
    assert shown[1:4] == ["r  starting", "r  starting", "r  starting  2 s"]
    assert "r  starting  8 s" in shown
    assert "r  waiting for 3 workers to be ready  2 s" in shown
    assert set(shown[-9:]) == {"r", "r  ended"}


def test_on_a_terminal_one_line_changes_and_messages_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """It never wraps nor ends within a word, and it is taken away at the end."""
    monkeypatch.setenv("COLUMNS", "30")
    stream = Terminal()
    line = ProgressLine(stream)
    line.show(RUNNING)
    line.say("worker-1 is gone")
    line.show(Progress(run="r", phase="ended"))
    line.clear()
    assert stream.getvalue() == ("\r\x1b[Kdigits  version 7/300\r\x1b[Kworker-1 is gone\n\r\x1b[Kr  ended\r\x1b[K")
