"""A machine's clock is set forward or back by an hour: no member is removed, and no decision changes."""

import ast
import os
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

import driftline
from driftline.testing import run_in_process
from driftline.testing.memory import MemoryBroker
from tests.support.verifiable import compute, offer

HOUR_S = 3600.0

WALL_CLOCKS = {"time", "time_ns", "now", "utcnow", "today"}

SHOWN_ONLY = {
    "broker/embedded/java.py": "throws away files of caches that were not used for long",
    "observe/doctor/examine.py": "shows how far this machine's clock is from Kafka's",
}
"""Where the time of day may be asked for, and why."""


def modules() -> Iterator[tuple[str, Path]]:
    """Yield every module that takes part in runs, by its path in the package."""
    (root,) = map(Path, driftline.__path__)
    for folder, _, files in os.walk(root, followlinks=True):
        for file in files:
            path = Path(folder) / file
            name = path.relative_to(root).as_posix()
            if path.suffix == ".py" and not name.startswith("testing/"):
                yield name, path


def asks_for_the_time_of_day(path: Path) -> bool:
    """Whether a module names ``time.time`` or its like, called at once or handed on."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in WALL_CLOCKS
        and isinstance(node.value, ast.Name)
        and node.value.id in {"time", "datetime", "date"}
        for node in ast.walk(tree)
    ) or any(
        isinstance(node, ast.ImportFrom) and node.module == "time" and {one.name for one in node.names} & WALL_CLOCKS
        for node in ast.walk(tree)
    )


def test_no_decision_looks_at_the_time_of_day() -> None:
    """Only clocks that cannot be set count seconds; every other use is listed here with its reason."""
    found = {name for name, path in modules() if asks_for_the_time_of_day(path)}
    assert found == SHOWN_ONLY.keys()


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S], ids=["forward", "back"])
def test_a_clock_that_is_set_again_and_again_removes_no_member(monkeypatch: pytest.MonkeyPatch, step_s: float) -> None:
    plain = run_in_process(MemoryBroker(), offer("run", 2, 10), ["ada", "bob"], compute)
    right, steps = time.time, count()
    monkeypatch.setattr(time, "time", lambda: right() + step_s * next(steps))
    stepped = run_in_process(MemoryBroker(), offer("run", 2, 10), ["ada", "bob"], compute)
    assert time.time() != pytest.approx(right(), abs=HOUR_S / 2)
    assert not stepped.state.removed
    assert {one.failure for one in stepped.finishes.values()} == {""}
    assert stepped.state.states[10].state == plain.state.states[10].state
