"""Fields of a task are set with text; what does not fit is listed, all of it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from driftline.errors import ConfigError, UsageError
from driftline.training.task import Task
from driftline.training.task.settings import apply_settings


class Complete(Task):
    """Defines what every task must, to no purpose."""

    def model(self) -> Any:
        """Return nothing."""

    def data(self, split: str) -> list[int]:
        """Return nothing."""
        del split
        return []

    def loss(self, model: Any, batch: Any) -> Any:
        """Return nothing."""

    def optimizer(self, model: Any) -> Any:
        """Return nothing."""

    def metrics(self, model: Any, batches: Iterable[Any]) -> dict[str, float]:
        """Return nothing."""
        del model, batches
        return {}


@dataclass(kw_only=True)
class Settable(Complete):
    """One setting of every kind."""

    rate: float = 0.1
    layers: int = 2
    deep: bool = False
    label: str = "x"
    limit: int | None = 3
    names: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Required(Complete):
    """A setting without a default."""

    folder: str


def problems(settings: dict[str, str], task: type[Task] | Task = Settable) -> tuple[str, ...]:
    """Return what settings are refused with."""
    with pytest.raises(ConfigError) as refused:
        apply_settings(task, "mine", settings)
    return refused.value.problems


def test_text_becomes_the_type_of_the_field() -> None:
    """``none`` is None where that is allowed."""
    text = {"rate": "1e-3", "layers": "4", "deep": "True", "label": "7", "limit": "none", "batch_size": "8"}
    task = apply_settings(Settable, "mine", text)
    assert task == Settable(rate=1e-3, layers=4, deep=True, label="7", limit=None, batch_size=8)
    assert apply_settings(Settable, "mine", {"limit": "5"}).limit == 5


def test_without_settings_defaults_hold() -> None:
    """The batch size of every task is 32 unless it says otherwise."""
    assert apply_settings(Settable, "mine", {}) == Settable()
    assert Settable().batch_size == 32


def test_an_instance_is_copied_with_the_changes_and_itself_stays() -> None:
    """It may be used elsewhere."""
    original = Settable(layers=9)
    changed = apply_settings(original, "mine", {"rate": "0.5"})
    assert (changed.layers, changed.rate, original.rate) == (9, 0.5, 0.1)


def test_every_misfit_is_listed_with_the_field_and_the_value() -> None:
    """Not the first alone; unknown names with the nearest known one."""
    found = problems({"rat": "1", "layers": "2.5", "rate": "fast", "deep": "yes", "limit": "x", "names": "a"})
    expected = (
        "unknown setting 'rat'; did you mean rate?",
        "setting layers: '2.5' is not a whole number",
        "setting rate: 'fast' is not a number",
        "setting deep: 'yes' is not true or false",
        "setting limit: 'x' is not a whole number",
        "setting names: is a list[str], which cannot be set as text",
    )
    assert all(words in problem for words, problem in zip(expected, found, strict=True)), found


@pytest.mark.parametrize("text", ["nan", "inf"])
def test_numbers_are_finite(text: str) -> None:
    """A learning rate that is not would be found much later."""
    assert "not a finite number" in problems({"rate": text})[0]


def test_a_setting_without_default_has_to_be_given() -> None:
    """The message says how."""
    assert problems({}, Required) == ("mine: setting folder has no default and is not given; add folder=VALUE",)
    assert apply_settings(Required, "mine", {"folder": "here"}).folder == "here"


@pytest.mark.parametrize("size", ["0", "-3"])
def test_a_batch_has_at_least_one_sample(size: str) -> None:
    """By setting or by default."""
    with pytest.raises(UsageError, match=r"batch_size .* at least 1"):
        apply_settings(Settable, "mine", {"batch_size": size})


def test_a_task_that_cannot_be_built_says_why() -> None:
    """Its own checks are heard."""

    @dataclass(kw_only=True)
    class Picky(Settable):
        def __post_init__(self) -> None:
            raise ValueError("layers must be odd")

    with pytest.raises(UsageError, match=r"cannot be built .* layers must be odd"):
        apply_settings(Picky, "mine", {"layers": "4"})
