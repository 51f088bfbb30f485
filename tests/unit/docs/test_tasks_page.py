"""The page about tasks: its code is run as a reader would run it."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driftline.config.run_settings import RunSettings
from driftline.errors import ConfigError
from driftline.testing import train_in_process
from driftline.training.model import rule as optimizer_settings
from driftline.training.task.computing import Computing
from driftline.training.task.loading import load_task
from driftline.training.task.parts import build_model
from tests.support import ROOT

PAGE = (ROOT / "docs" / "tasks.md").read_text()
WRITTEN, TRIED, TESTED, KEPT = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give the reader's working directory, with the first file of the page in it."""
    (tmp_path / "tumours.py").write_text(WRITTEN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.endswith(("tumours", "kept")):
            del sys.modules[name]


@pytest.mark.parametrize("settings", [{}, {"rule": "sgd", "learning_rate": "0.05"}], ids=["adamw", "sgd"])
def test_the_task_of_the_page_learns(settings: dict[str, str]) -> None:
    """Found by the words that the page shows, with and without its settings."""
    assert "driftline train tumours.py:Tumours" in PAGE
    outcome = train_in_process(load_task("tumours.py:Tumours", settings), steps=40, servers=2)
    assert outcome.metrics["accuracy"] > 0.9


def test_the_loop_of_the_page_trains_without_kafka(capsys: pytest.CaptureFixture[str]) -> None:
    """Plain PyTorch."""
    exec(TRIED, {})  # noqa: S102 - the page's own code
    accuracy = re.fullmatch(r"\{'accuracy': ([0-9.]+)\}\n", capsys.readouterr().out)
    assert accuracy is not None
    assert float(accuracy[1]) > 0.9


def test_the_test_of_the_page_passes() -> None:
    """Run in this process, as pytest would."""
    names: dict[str, Any] = {}
    exec(TESTED, names)  # noqa: S102 - the page's own code
    names["test_the_task_learns"]()


def test_the_model_can_be_kept_as_the_page_says(folder: Path) -> None:
    """A state dict that torch loads into the task's model."""
    import torch  # noqa: PLC0415 - only here

    (folder / "kept.py").write_text(KEPT)
    task = load_task("kept.py:Kept")
    measured = train_in_process(task, steps=2, servers=2).metrics
    model = build_model(task, 1)
    model.load_state_dict(torch.load("tumours.pt", weights_only=True))
    with torch.no_grad():
        batch = task.collate([task.data("test")[0]])
        assert torch.isfinite(task.loss(model, batch)[0])
    assert measured.keys() == {"accuracy"}


def test_the_page_names_every_optimizer_that_can_be_used() -> None:
    """A new update rule is not done before this page says so."""
    row = next(line for line in PAGE.splitlines() if line.startswith("| optimizers other than"))
    assert [kind.__name__ for kind in optimizer_settings._READINGS if f"`{kind.__name__}`" not in row] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("nn.Linear(30, 1).double()", "model.float()"),
        ("nn.LazyLinear(1)", "one batch through the model"),
    ],
)
def test_what_the_page_says_cannot_be_trained_is_refused_with_the_way_out(change: str, said: str, folder: Path) -> None:
    """The words of the page are those of the message, or near them."""
    lines = ["from torch import nn", "from tumours import Tumours", "class Other(Tumours):"]
    (folder / "kept.py").write_text("\n".join([*lines, f"    def model(self): return {change}", ""]))
    with pytest.raises(ConfigError, match=re.escape(said)):
        Computing(load_task("kept.py:Other"), RunSettings(run="page", workers=2, steps=1, seed=0, partitions=4))
    assert said in PAGE.replace("`", "")
