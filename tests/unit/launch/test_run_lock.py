"""Two ``train`` commands of one run name at the same moment."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from driftline.config.run_settings import RunSettings
from driftline.errors import RunRefused
from driftline.launch.plan import lock_run
from driftline.launch.progress_line import ProgressLine
from driftline.launch.training import Request, chosen_run
from driftline.testing.memory import MemoryBroker


def request(home: Path, *, name_is_default: bool) -> Request:
    """Return what a command was asked for."""
    connection: Any = SimpleNamespace(home=home)
    return Request(
        task="digits",
        task_settings={},
        settings=RunSettings(run="twice", steps=3),
        servers=1,
        connection=connection,
        name_is_default=name_is_default,
    )


def test_the_second_of_a_named_run_is_refused_in_one_line(tmp_path: Path) -> None:
    """Whether or not the first has made its topics by then."""
    first = lock_run(tmp_path, "twice")
    assert first is not None
    kafka: Any = SimpleNamespace(broker=MemoryBroker())
    try:
        with (
            pytest.raises(RunRefused) as refused,
            chosen_run(request(tmp_path, name_is_default=False), kafka, ProgressLine().say),
        ):
            pytest.fail("it starts processes of the same names")
    finally:
        first.release()
    assert str(refused.value) == (
        f"another `driftline train` of {tmp_path} is at work on run 'twice'; choose another --run"
    )
    assert refused.value.exit_code == 2


def test_the_second_of_a_run_without_a_name_takes_the_next_one(tmp_path: Path) -> None:
    first = lock_run(tmp_path, "twice")
    assert first is not None
    kafka: Any = SimpleNamespace(broker=MemoryBroker())
    with chosen_run(request(tmp_path, name_is_default=True), kafka, ProgressLine().say) as (settings, _):
        assert settings.run == "twice-2"
    first.release()
