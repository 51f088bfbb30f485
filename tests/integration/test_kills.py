"""Processes of a run are killed, with SIGKILL, and the run arrives where it must: a sample of the kill matrix."""

from pathlib import Path

import pytest

from driftline.testing.kills.__main__ import play
from driftline.testing.kills.matrix import MATRIX, POINTS, SAMPLE, Case
from driftline.training.faults import parse_script


@pytest.mark.kafka
@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.name)
def test_whoever_is_killed_every_promise_is_kept(case: Case, tmp_path: Path) -> None:
    """The same bits without servers and brokers, each sample once without workers; acknowledged against settled."""
    outcome = play(case, tmp_path)
    assert not outcome.broken, "\n".join(outcome.broken)
    assert all(one.hit for one in outcome.disturbances), list(map(str, outcome.disturbances))
    assert outcome.acknowledged > len(outcome.told.used) // 2


def test_the_whole_matrix_kills_at_ten_points() -> None:
    """Every case but the undisturbed one."""
    versions = {case.name: {one.version for one in parse_script(case.script)} for case in MATRIX if case.script}
    assert all(len(found) == POINTS for found in versions.values()), versions
