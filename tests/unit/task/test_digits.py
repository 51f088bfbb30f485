"""The digits task learns, and evaluation of one version gives one answer."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from driftline.errors import UsageError
from driftline.training.model.layout import describe, flatten_parameters
from driftline.training.task import read_batch
from driftline.training.task.builtin import digits
from driftline.training.task.builtin.digits import Digits
from driftline.training.task.evaluation import batches, evaluate
from driftline.training.task.loading import load_task
from driftline.training.task.parts import build_model, build_optimizer, loss_of
from driftline.training.worker.order import epoch_order

WORKERS = 3
VERSIONS = 150
GOLDEN_LABELS = [0, 1, 3, 4, 2, 3, 4, 6, 5, 3, 2, 2]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Compute as workers do: on small models a second thread only costs time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def task() -> Digits:
    """Load the task as the command line does."""
    task = load_task("digits")
    assert isinstance(task, Digits)
    return task


def test_the_split_is_complete_even_and_always_the_same(task: Digits) -> None:
    """A fifth of each digit is held out, and no image is in both parts."""
    train, test = ([(image.numpy().tobytes(), int(label)) for image, label in rows(task, s)] for s in ("train", "test"))
    assert (len(train), len(test)) == (1437, 360)
    counts = Counter(label for _, label in train), Counter(label for _, label in test)
    assert all(abs(counts[0][digit] / 4 - counts[1][digit]) <= 2 for digit in range(10))
    assert not {image for image, _ in train} & {image for image, _ in test}
    assert [label for _, label in test][:12] == GOLDEN_LABELS


def rows(task: Digits, split: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return every sample of a split."""
    data = task.data(split)
    return [data[index] for index in range(len(data))]


def test_the_file_holds_what_scikit_learn_reads_from_it() -> None:
    """Reading it directly is a matter of speed alone."""
    assert np.array_equal(digits._table(), digits._table_by_sklearn())


def test_without_scikit_learn_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes with the extra that brings torch."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'driftline\[train\]'"):
        Digits().data("train")


def test_samples_are_images_from_0_to_1_and_digits(task: Digits) -> None:
    """And stack into batches."""
    images, labels = read_batch(task, task.data("train"), np.array([3, 1, 4]))
    assert (images.dtype, tuple(images.shape), labels.dtype, tuple(labels.shape)) == (
        torch.float32,
        (3, 64),
        torch.int64,
        (3,),
    )
    assert 0.0 == images.min() < images.max() == 1.0


def test_another_split_is_refused(task: Digits) -> None:
    """By name."""
    with pytest.raises(UsageError, match="no split 'validation'; it has train and test"):
        task.data("validation")


def test_models_differ_by_seed_alone(task: Digits) -> None:
    """Whatever was drawn before."""
    torch.rand(5)
    one, again, other = (build_model(task, seed) for seed in (1, 1, 2))
    layout, _ = describe(one, build_optimizer(task, one), 4)
    vectors = [flatten_parameters(model, layout).tobytes() for model in (one, again, other)]
    assert vectors[0] == vectors[1] != vectors[2]


def test_digits_are_learned_within_150_versions_of_three_workers_batches(task: Digits) -> None:
    """Held-out accuracy of at least 0.95; lock-step with three workers takes the mean over their joined batches."""
    model, train = build_model(task, 0), task.data("train")
    optimizer = task.optimizer(model)
    joined = WORKERS * task.batch_size
    an_epoch = -(-len(train) // joined)
    for version in range(VERSIONS):
        epoch, place = divmod(version, an_epoch)
        indices = epoch_order(len(train), 0, epoch)[place * joined : (place + 1) * joined]
        loss, denominator = loss_of(task, model, read_batch(task, train, indices))
        assert denominator == len(indices)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    untrained = build_model(task, 0)
    layout, _ = describe(untrained, build_optimizer(task, untrained), 4)
    metrics = evaluate(task, untrained, layout, flatten_parameters(model, layout))
    assert metrics["accuracy"] >= 0.95
    assert metrics["loss"] < 0.2


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (torch.ones((), requires_grad=True), "must return (mean, denominator), got a Tensor"),
        ((torch.ones(3, requires_grad=True), 3), "one number that depends on the parameters"),
        ((torch.ones(()), 3), "one number that depends on the parameters"),
        ((0.5, 3), "one number that depends on the parameters"),
        ((torch.ones((), requires_grad=True), -1), "the denominator is -1.0"),
        ((torch.ones((), requires_grad=True), float("nan")), "the denominator is nan"),
    ],
)
def test_a_loss_that_is_no_mean_with_a_weight_is_refused(
    task: Digits, returned: object, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the task and what came."""
    monkeypatch.setattr(task, "loss", lambda *_: returned)
    with pytest.raises(UsageError) as refused:
        loss_of(task, nn.Identity(), None)
    assert "loss() of task Digits" in str(refused.value)
    assert words in str(refused.value)


def test_a_model_or_optimizer_that_is_none_is_refused(task: Digits, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a return statement was forgotten."""
    model = build_model(task, 0)
    monkeypatch.setattr(task, "model", lambda: None)
    monkeypatch.setattr(task, "optimizer", lambda _: None)
    with pytest.raises(UsageError, match=r"model\(\) of task Digits returned a NoneType, not a torch module"):
        build_model(task, 0)
    with pytest.raises(UsageError, match=r"optimizer\(\) of task Digits returned a NoneType, not a torch optimizer"):
        build_optimizer(task, model)


class Noisy(Digits):
    """Digits behind dropout, with a metric that draws random numbers."""

    def model(self) -> nn.Module:
        """Return a model that is random in training mode."""
        return nn.Sequential(super().model(), nn.Dropout(0.9))

    def metrics(self, model: nn.Module, batches: Any) -> dict[str, float]:
        """Add a metric that differs unless randomness is fixed, and modes."""
        noise = {"noise": torch.rand(()), "training": model.training, "gradients": torch.is_grad_enabled()}
        return {**super().metrics(model, batches), **noise}  # type: ignore[dict-item]


def test_one_version_has_one_answer_and_the_evaluation_leaves_no_trace() -> None:
    """In evaluation mode, without gradients, from a fixed seed; modes and generators are put back."""
    task = Noisy()
    model = build_model(task, 0)
    model[0].eval()  # type: ignore[index]
    layout, _ = describe(model, build_optimizer(task, model), 4)
    flat = flatten_parameters(model, layout)
    state = torch.get_rng_state()
    first = evaluate(task, model, layout, flat)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(3)
    assert evaluate(task, model, layout, flat, dataset=task.data("test")) == first
    assert (first["training"], first["gradients"]) == (0.0, 0.0)
    assert (model.training, model[0].training, model[1].training) == (True, False, True)  # type: ignore[index]


def test_evaluation_reads_every_sample_once_in_order(task: Digits) -> None:
    """The last batch may be smaller."""
    task = Digits(batch_size=7)
    sizes = [len(labels) for _, labels in batches(task, task.data("test"))]
    assert sizes == [7] * 51 + [3]


@pytest.mark.parametrize("metrics", [None, {"accuracy": "high"}, {"accuracy": torch.zeros(2)}, [("accuracy", 1.0)]])
def test_metrics_that_are_no_numbers_are_refused(metrics: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the task and what came."""
    task = Digits()
    monkeypatch.setattr(task, "metrics", lambda *_: metrics)
    model = build_model(task, 0)
    layout, _ = describe(model, build_optimizer(task, model), 4)
    with pytest.raises(UsageError, match=r"metrics\(\) of task Digits must return names with one number each"):
        evaluate(task, model, layout, flatten_parameters(model, layout))


def test_a_test_split_without_samples_is_refused(task: Digits) -> None:
    """Metrics of nothing would be a division by zero somewhere."""
    model = build_model(task, 0)
    layout, _ = describe(model, build_optimizer(task, model), 4)
    with pytest.raises(UsageError, match="no test samples"):
        evaluate(task, model, layout, flatten_parameters(model, layout), dataset=[])
