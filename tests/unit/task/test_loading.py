"""A task is found by its name, module or file; when it is not, the message says what to write."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import driftline
from driftline.errors import UsageError
from driftline.training.task import Task
from driftline.training.task.loading import load_task

COMPLETE = """
from dataclasses import dataclass

from driftline.training.task import Task


@dataclass
class Good(Task):
    rate: float = 0.5

    def model(self): ...
    def data(self, split): return [1, 2, 3]
    def loss(self, model, batch): ...
    def optimizer(self, model): ...
    def metrics(self, model, batches): ...


class Half(Task):
    def model(self): ...
    def data(self, split): ...
    def optimizer(self, model): ...


good = Good(rate=2.0)
number = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a working directory with mine.py; modules that a test imports from it are forgotten afterwards."""
    (tmp_path / "mine.py").write_text(COMPLETE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def refusal(spec: str) -> str:
    """Return the message that a task is refused with."""
    with pytest.raises(UsageError) as refused:
        load_task(spec)
    return str(refused.value)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("spec", "rate"), [("mine:Good", 0.5), ("mine.py:Good", 0.5), ("mine.py:good", 2.0)])
def test_a_module_and_a_file_in_the_working_directory_are_found(spec: str, rate: float) -> None:
    """Classes are built, instances taken as they are."""
    task = load_task(spec)
    assert isinstance(task, Task)
    assert getattr(task, "rate") == rate  # noqa: B009 - the class is made by the file


def test_a_file_elsewhere_imports_what_lies_beside_it(folder: Path) -> None:
    """As a script does."""
    other = folder / "deep" / "er"
    other.mkdir(parents=True)
    (other / "beside_it.py").write_text("BATCH = 5")
    (other / "task.py").write_text(f"import beside_it\n{COMPLETE}\nGood.batch_size = beside_it.BATCH\n")
    assert type(load_task(f"{other / 'task.py'}:Good")).__name__ == "Good"


def test_the_same_file_is_run_once(folder: Path) -> None:
    """Its classes stay the same classes."""
    assert type(load_task("mine.py:Good")) is type(load_task(f"{folder}/mine.py:Good"))


def test_a_built_in_task_is_not_looked_for_in_the_working_directory(folder: Path) -> None:
    """A random file there must not stand in for a library."""
    load_task("digits")
    assert str(folder) not in sys.path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            "digit",
            ["no built-in task 'digit'", "did you mean digits?", "Built in: digits, fashion", "file.py:Attribute"],
        ),
        ("zzz", ["no built-in task 'zzz'", "Built in: digits, fashion"]),
        ("", ["no built-in task ''"]),
        ("mine.py", ["does not say which attribute", "write mine.py:NameOfTheTask"]),
        ("a.b", ["write a.b:NameOfTheTask"]),
        (":Good", ["is not a built-in name, package.module:Attribute or file.py:Attribute"]),
        ("mine:", ["is not a built-in name, package.module:Attribute or file.py:Attribute"]),
        ("absent.py:Good", ["no file 'absent.py'", "working directory"]),
        ("absent_module:Good", ["no module 'absent_module'", "path/to/file.py:Attribute"]),
        ("json.absent_inside:Good", ["no module 'json.absent_inside'"]),
        ("..mine:Good", ["..mine"]),
        ("mine:Godo", ["has no attribute 'Godo'", "the tasks in it are Good, Half, good"]),
        ("json:Good", ["has no attribute 'Good'", "no subclass of driftline.Task"]),
        ("mine:number", ["mine:number is a int", "driftline.Task"]),
        ("mine:dataclass", ["mine:dataclass is a function"]),
        ("mine:Half", ["task mine:Half lacks loss(), metrics()"]),
    ],
)
def test_a_name_that_leads_nowhere_says_what_to_write(spec: str, words: list[str]) -> None:
    """The value, the fault and the way out."""
    message = refusal(spec)
    assert [word for word in words if word not in message] == [], message


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import not_there_at_all", "broken.py cannot be imported: ModuleNotFoundError: No module named 'not_there"),
        ("1 / 0", "broken.py cannot be imported: ZeroDivisionError"),
        ("def", "broken.py cannot be imported: SyntaxError"),
        ("import sys; sys.exit(2)", "put that under if __name__ == '__main__'"),
        ("raise ModuleNotFoundError('no', name='torch')", "pip install 'driftline[train]'"),
    ],
)
def test_a_file_that_breaks_says_how(folder: Path, code: str, words: str) -> None:
    """And can be mended and loaded again."""
    file = folder / "broken.py"
    file.write_text(code)
    assert words in refusal("broken.py:Good")
    file.write_text(COMPLETE + "# now of another length, so that no compiled copy is taken for it\n")
    assert load_task("broken.py:Good").batch_size == 32


def test_a_module_that_breaks_inside_is_not_called_missing(folder: Path) -> None:
    """The import that fails is the one named."""
    (folder / "inner_fault.py").write_text("import not_there_at_all")
    assert "inner_fault cannot be imported: ModuleNotFoundError: No module named 'not_there" in refusal("inner_fault:T")


def test_naming_tasks_needs_no_torch() -> None:
    """A command that only lists them starts fast."""
    code = "import sys, driftline.training.task, driftline.training.task.data; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_task_file_that_fails_names_its_line(folder: Path) -> None:
    """The reader wrote that file a minute ago."""
    (folder / "mine.py").write_text("import sys\n\nsys.nothing\n")
    assert refusal("mine.py:Good").endswith("has no attribute 'nothing' (mine.py, line 3)")


def test_task_is_to_be_had_from_the_package() -> None:
    """Under its short name, and the package itself imports nothing before it is asked for."""
    assert driftline.Task is Task
    with pytest.raises(AttributeError, match="no attribute 'Tsak'"):
        getattr(driftline, "Tsak")  # noqa: B009 - mypy knows better
    code = "import sys, driftline; sys.exit('driftline.training' in sys.modules)"
    assert subprocess.run((sys.executable, "-c", code), check=False).returncode == 0
