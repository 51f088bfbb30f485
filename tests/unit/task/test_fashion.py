"""The fashion task reads its files strictly, and says what to do when they are not there."""

import gzip
import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from driftline.config.run_settings import RunSettings
from driftline.errors import UsageError
from driftline.training.model.layout import describe, flatten_parameters
from driftline.training.task import read_batch
from driftline.training.task.builtin.fashion import FILES, FOLDER, Fashion
from driftline.training.task.builtin.idx import read_idx
from driftline.training.task.computing import Computing
from driftline.training.task.evaluation import evaluate
from driftline.training.task.loading import load_task
from driftline.training.task.parts import build_model, build_optimizer

TRAIN_IMAGES, TRAIN_LABELS = FILES["train"]
SIZES = {"train": 40, "test": 20}


def idx(values: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> bytes:
    """Write a table as the format wants it, not compressed."""
    return bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def zipped(content: bytes) -> bytes:
    """Compress, without the time of day in it: contents are names of tests, and those must be the same everywhere."""
    return gzip.compress(content, mtime=0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make the four files, small: the class of an image is the row in which it is bright."""
    for split, (images, labels) in FILES.items():
        classes = (np.arange(SIZES[split]) % 10).astype(np.uint8)
        pixels = np.zeros((SIZES[split], 28, 28), np.uint8)
        pixels[np.arange(SIZES[split]), 2 * classes] = 255
        (tmp_path / images).write_bytes(zipped(idx(pixels)))
        (tmp_path / labels).write_bytes(zipped(idx(classes)))
    return tmp_path


def fashion(folder: Path) -> Fashion:
    """Load the task as the command line does."""
    task = load_task("fashion", {"folder": str(folder)})
    assert isinstance(task, Fashion)
    return task


def test_images_become_numbers_from_0_to_1_and_classes(folder: Path) -> None:
    """In the order of the files, a row of pixels after the other."""
    task = fashion(folder)
    task.prepare()
    data = task.data("train")
    images, labels = read_batch(task, data, [3, 11])
    assert (len(data), len(task.data("test"))) == (40, 20)
    assert (images.dtype, images.shape, labels.dtype) == (torch.float32, (2, 784), torch.int64)
    assert labels.tolist() == [3, 1]
    assert images[0].nonzero().flatten().tolist() == list(range(6 * 28, 7 * 28))
    assert images.unique().tolist() == [0.0, 1.0]


def test_it_learns_and_is_measured(folder: Path) -> None:
    """By its own loss, optimizer and metrics."""
    task = fashion(folder)
    model = build_model(task, 0)
    optimizer = task.optimizer(model)
    batch = read_batch(task, task.data("train"), range(40))
    for _ in range(30):
        optimizer.zero_grad()
        loss, denominator = task.loss(model, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert denominator == 40
    layout, rule = describe(model, build_optimizer(task, model), 4)
    assert rule.name == "sgd"
    metrics = evaluate(task, build_model(task, 0), layout, flatten_parameters(model, layout))
    assert metrics["accuracy"] == 1.0
    assert metrics["loss"] < 0.1


def test_without_the_files_a_worker_says_what_to_install_before_it_does_anything(tmp_path: Path) -> None:
    """One error: what is missing, where, the package, and the other way out."""
    (tmp_path / TRAIN_LABELS).touch()
    with pytest.raises(UsageError) as refused:
        Computing(fashion(tmp_path), RunSettings(run="closet", steps=1))
    missing = ", ".join(name for names in FILES.values() for name in names if name != TRAIN_LABELS)
    assert str(refused.value) == (
        f"the fashion task finds no {missing} in {str(tmp_path)!r}; install the package dataset-fashion-mnist of "
        f"Debian, or name the folder that holds Fashion-MNIST: --set folder=PATH"
    )


def test_another_split_is_refused() -> None:
    """By name."""
    with pytest.raises(UsageError, match="no split 'valid'; it has train and test"):
        Fashion().data("valid")


GOOD = idx(np.arange(6, dtype=np.uint8).reshape(2, 3))


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    """In C order."""
    (tmp_path / "good").write_bytes(zipped(GOOD))
    assert read_idx(tmp_path / "good", 2).tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (GOOD, "cannot be read as gzip"),
        (b"", "begins with the bytes ''"),
        (zipped(GOOD)[:-9], "cannot be read as gzip"),
        (zipped(GOOD)[:12] + b"\xff\xff" + zipped(GOOD)[14:], "cannot be read as gzip"),
        (zipped(b""), "begins with the bytes '' and not with '00000802'"),
        (zipped(b"\0\0\x09" + GOOD[3:]), "begins with the bytes '00000902'"),
        (zipped(b"\0\0\x08\x01" + GOOD[4:]), "begins with the bytes '00000801'"),
        (zipped(b"PK\x08\x02" + GOOD[4:]), "begins with the bytes '504b0802'"),
        (zipped(GOOD[:11]), "ends after 11 bytes, within its dimensions"),
        (zipped(GOOD[:-1]), "says 2 x 3 values and holds 5 bytes of them"),
        (zipped(GOOD + b"\0"), "says 2 x 3 values and holds 7 bytes of them"),
        (zipped(GOOD[:4] + b"\xff" * 8 + GOOD[12:]), "says 4294967295 x 4294967295 values and holds 6 bytes"),
    ],
)
def test_a_broken_file_is_refused_by_name(content: bytes, said: str, tmp_path: Path) -> None:
    """Not gzip, cut off, another type or shape, sizes that are not those of the content: never a wrong table."""
    file = tmp_path / "broken"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=f"^{re.escape(str(file))} {re.escape(said)}.*; fetch the file again$"):
        read_idx(file, 2)


def smaller_images(folder: Path) -> None:
    """Images of another size."""
    (folder / TRAIN_IMAGES).write_bytes(zipped(idx(np.zeros((40, 8, 8), np.uint8))))


def fewer_labels(folder: Path) -> None:
    """Labels of something else."""
    (folder / TRAIN_LABELS).write_bytes(zipped(idx(np.zeros(39, np.uint8))))


def unknown_label(folder: Path) -> None:
    """A class that there is not."""
    (folder / TRAIN_LABELS).write_bytes(zipped(idx(np.full(40, 10, np.uint8))))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (smaller_images, "holds images of 8 x 8 pixels, not of 28 x 28"),
        (fewer_labels, "holds 40 images and .* 39 labels"),
        (unknown_label, "holds the label 10; the classes are 0 to 9"),
    ],
)
def test_files_that_are_not_those_of_the_task_are_refused(
    change: Callable[[Path], None], said: str, folder: Path
) -> None:
    """Though each of them may be sound."""
    change(folder)
    with pytest.raises(UsageError, match=said):
        fashion(folder).data("train")


@pytest.mark.skipif(not Path(FOLDER).is_dir(), reason=f"the real images are not here: no {FOLDER}")
def test_the_real_files_hold_what_their_authors_say() -> None:
    """60,000 and 10,000 images, as many of each class."""
    task = Fashion()
    task.prepare()
    for split, size in (("train", 60_000), ("test", 10_000)):
        images, labels = task.data(split).tensors  # type: ignore[attr-defined]
        assert (len(images), images.dtype, images.shape[1]) == (size, torch.uint8, 784)
        assert labels.bincount().tolist() == [size // 10] * 10
    assert task.data("test")[0][1] == 9  # an ankle boot
