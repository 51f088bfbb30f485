"""The log is the training run: who ever folds it gets the same bits, and they are those of plain training."""

from typing import Any

import numpy as np
import pytest
import torch

from driftline.training.model.layout import describe, flatten_parameters
from driftline.training.task import read_batch
from driftline.training.task.loading import load_task
from driftline.training.task.parts import build_model
from driftline.training.worker.order import epoch_order
from tests.integration.conftest import Trained
from tests.integration.independent_fold import STREAMS, Fold, read_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def fold(two_servers: Trained) -> Fold:
    """The run with two servers, recomputed without driftline's own code."""
    topics = {
        stream: read_topic(two_servers.bootstrap_servers, f"driftline.{two_servers.run}.{stream}") for stream in STREAMS
    }
    found = Fold(topics)
    found.run()
    return found


def test_an_independent_fold_of_the_log_gives_the_recorded_digests(fold: Fold, two_servers: Trained) -> None:
    assert len(fold.recorded) == 61
    assert fold.versions == fold.recorded
    assert fold.versions[60].state.hex() == two_servers.status["digest"]


def test_every_published_shard_holds_the_bits_of_the_fold(fold: Fold) -> None:
    published = list(fold.published())
    assert {version for version, _, _, _ in published} == set(range(61))
    assert all(found.tobytes() == expected.tobytes() for _, _, found, expected in published)


def test_the_number_of_servers_changes_no_bit(two_servers: Trained, one_server: Trained) -> None:
    assert one_server.status["digest"] == two_servers.status["digest"]
    assert one_server.status["uuid"] != two_servers.status["uuid"]
    assert len(two_servers.status["servers"]) == 2
    assert len(one_server.status["servers"]) == 1


def read_for(version: dict[str, Any]) -> list[dict[str, int]]:
    """Return the ranges of samples that a version consumes, by worker and clock."""
    return [one for use in version["uses"] for one in use["samples"]]


def indices(one: dict[str, int], samples: int, seed: int) -> Any:
    """Return the indices of a range of samples."""
    return epoch_order(samples, seed, one["epoch"])[one["start"] : one["start"] + one["count"]]


def test_no_sample_is_used_twice_an_epoch_and_none_is_left_out(fold: Fold) -> None:
    """Counted one by one. Every epoch that is over is whole; of the others what is missing is still to be read."""
    samples = fold.config["data"]["samples"]
    used: dict[int, list[int]] = {}
    for name, record in fold.ledger:
        for one in read_for(record) if name == "Version" else ():
            used.setdefault(one["epoch"], []).extend(range(one["start"], one["start"] + one["count"]))
    assert all(len(set(places)) == len(places) for places in used.values())
    whole = [epoch for epoch, places in sorted(used.items()) if len(places) == samples]
    assert whole == list(range(len(whole)))
    assert whole


def test_three_workers_in_lock_step_are_one_process_with_the_joined_batch(fold: Fold) -> None:
    task = load_task("digits")
    data = task.data("train")
    model = build_model(task, fold.config["seed"])
    optimizer = task.optimizer(model)
    layout, _ = describe(model, optimizer, fold.config["partitions"])
    versions = [record for name, record in fold.ledger if name == "Version"]
    for version in versions[:30]:
        joined = np.concatenate([indices(one, len(data), fold.config["seed"]) for one in read_for(version)])
        assert len(joined) == sum(use["weight"] for use in version["uses"])
        optimizer.zero_grad()
        mean, _ = task.loss(model, read_batch(task, data, joined))
        mean.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    plain = flatten_parameters(model, layout)
    # The sums are taken in another order, and AdamW divides by gradients that are near zero at first.
    assert np.abs(plain - fold.masters[30]).max() < 2e-3
    assert np.abs(plain - fold.masters[0]).max() > 0.05
    assert torch.isfinite(torch.from_numpy(plain)).all()
