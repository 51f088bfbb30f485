"""The page about convergence is what its program makes of the committed results, and counts as it says."""

import math
import threading
import time
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import torch

from bench.convergence import chart, page
from bench.convergence.looking import (
    Spread,
    loss_at_samples,
    loss_at_second,
    loss_at_version,
    mean_staleness,
    seconds_to,
    spread,
)
from bench.convergence.measuring import Published, chosen
from bench.convergence.paced import Paced
from bench.convergence.results import SAME, Point, Results, Row, append, append_conditions, load
from bench.convergence.trials import SEEDS, SLOW_WORKER, SLOWNESS, WORKERS, trials
from driftline.training.task import read_batch
from driftline.training.task.builtin.digits import Digits

RESULTS = Path(page.__file__).with_name("results.jsonl")
ROW = Row(
    task="digits",
    way="async",
    slowness=5,
    seed=1,
    curve=(Point(1, 32, 0.5, 2.5), Point(4, 128, 1.5, 0.75), Point(9, 288, 2.5, 0.5)),
    accuracy=0.9,
    versions=12,
    samples=384,
    staleness={0: 2, 3: 6},
    rejected=1,
    clocks=(9, 3),
    waiting=(0.25, 0.5),
    gradient_s=0.07,
    failure="",
    load=1.5,
)


@pytest.fixture(scope="module")
def results() -> Results:
    """Read the committed results."""
    return load(RESULTS)


def test_the_page_is_what_the_results_make_of_it(results: Results) -> None:
    """After new results: python -m bench.convergence --write."""
    text = page.PAGE.read_text()
    assert page.written(text, results) == text


def test_every_table_stands_on_the_page(results: Results) -> None:
    """Without results there is no chart."""
    named = [found["name"] for found in page.MARKER.finditer(page.PAGE.read_text())]
    assert sorted(named) == sorted(page.tables(results))


def test_the_drawing_is_what_the_results_make_of_it(results: Results) -> None:
    """And it is sound XML with a line a way, in each of two panels."""
    text = chart.DRAWING.read_text()
    assert chart.drawn(results) == text
    lines = list(ET.fromstring(text).iter("{http://www.w3.org/2000/svg}polyline"))  # noqa: S314 - ours
    assert len(lines) == 2 * len(chart.LINES)


def test_the_results_are_complete(results: Results) -> None:
    """Every way, at both speeds, with every seed, once; each run with a curve."""
    assert sorted(row.key for row in results.rows) == sorted(trial.key for trial in trials())
    assert len(SEEDS) == 5
    assert all(len(row.curve) > 5 for row in results.rows)


def test_the_bounds_held_in_every_run_and_were_reached_by_some(results: Results) -> None:
    """No contribution is staler than 2 s in ssp, nor stale at all in sync."""
    for bound in (0, 1, 2, 4):
        ways = ("sync", "sync, clock") if bound == 0 else (f"ssp {bound}",)
        stalest = [max(row.staleness) for row in results.rows if row.way in ways]
        assert stalest
        assert max(stalest) <= 2 * bound
        assert max(stalest) >= bound


def test_a_changed_table_would_be_found(results: Results) -> None:
    """The check above can fail."""
    text = page.PAGE.read_text()
    changed = text.replace("| `--mode sync` | ", "| `--mode sync` | 9", 1)
    assert changed != text
    assert page.written(changed, results) == text


def test_losses_are_those_of_the_newest_version_up_to_a_mark() -> None:
    """And nothing, where the run did not get there."""
    assert [loss_at_version(ROW, mark) for mark in (0, 1, 3, 4, 12, 13)] == [None, 2.5, 2.5, 0.75, 0.5, None]
    assert [loss_at_samples(ROW, mark) for mark in (31, 32, 300, 385)] == [None, 2.5, 0.5, None]
    assert [loss_at_second(ROW, mark) for mark in (0.4, 0.5, 2.0, 10.0)] == [None, 2.5, 0.75, 0.5]
    assert [seconds_to(ROW, loss) for loss in (3.0, 0.75, 0.5, 0.4)] == [0.5, 1.5, 2.5, None]


def test_staleness_is_a_mean_over_contributions() -> None:
    """Of those that were used."""
    assert mean_staleness(ROW) == 18 / 8
    assert mean_staleness(replace(ROW, staleness={})) is None


def test_a_spread_is_the_median_with_the_extremes() -> None:
    """It says how many runs had the number."""
    assert spread([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0, 3, 3)
    assert spread([None, 1.0, 2.0]) == Spread(1.5, 1.0, 2.0, 2, 3)
    assert spread([None, None]) is None
    assert page._numbers([1.0, 2.0, None], 1) == "1.5 (1.0-2.0), 2 of 3"
    assert page._numbers([None], 1) == "—"


def test_results_can_be_written_and_read(tmp_path: Path) -> None:
    """To the last number; a loss that is not finite too."""
    file = tmp_path / "results.jsonl"
    assert load(file) == Results()
    append_conditions(file, {"cores": 2})
    diverged = replace(ROW, seed=2, curve=(Point(1, 32, 0.5, math.inf),))
    append(file, ROW)
    append(file, diverged)
    found = load(file)
    assert found.rows == (ROW, diverged)
    assert found.conditions == ({"cores": 2, **SAME},)


def test_results_of_other_runs_are_not_gone_on_with(tmp_path: Path) -> None:
    """A file holds runs of one length alone."""
    file = tmp_path / "results.jsonl"
    append_conditions(file, {})
    file.write_text(file.read_text().replace(str(SAME["seconds"]), "99"))
    with pytest.raises(ValueError, match=r"was measured with \{'seconds': 99\}, not .* name another file"):
        load(file)


def test_one_worker_is_slow() -> None:
    """By the factor that the trial says."""
    trial = next(one for one in trials() if one.slowness == SLOWNESS)
    pauses = {name: trial.pause_s(name) for name in WORKERS}
    fast = {pauses[name] for name in WORKERS if name != SLOW_WORKER}
    assert fast == {pauses[SLOW_WORKER] / SLOWNESS}
    assert trial.run_settings("name").steps == 0


def test_versions_are_measured_at_the_marks_and_at_the_end() -> None:
    """The newest of each mark; every one of them once."""
    flat = np.zeros(1, np.float32)
    found = chosen([Published(number, 60 * number, 0.05 * number, flat) for number in range(230)])
    versions = [one.version for one in found]
    assert versions == sorted(set(versions))
    assert {25, 50, 100, 200, 229} <= set(versions)
    assert {10, 20, 190} <= set(versions)
    assert len(versions) < 40


def test_a_paced_task_takes_its_time_and_counts_it() -> None:
    """From a batch to its last gradient; what the worker waits for in between does not count."""
    inner = Digits(batch_size=4)
    data = inner.data("train")
    paced = Paced(inner, 0.05, data, threading.Event())
    model = paced.model()
    began_s = time.monotonic()
    for _ in range(3):
        loss, weight = paced.loss(model, read_batch(paced, paced.data("train"), range(4)))
        loss.backward()  # type: ignore[no-untyped-call]
        assert weight == 4.0
        threading.Event().wait(0.1)
    paced.settle()
    assert paced.gradients == 3
    assert 0.15 <= paced.busy_s <= time.monotonic() - began_s - 0.3
    assert torch.isfinite(loss)
