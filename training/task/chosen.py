"""Which task was chosen, checked before anything of it is imported."""

from pathlib import Path

from driftline.config.keys import TASK_NAME, key
from driftline.config.run_settings import TASK_SETS_NO_RATES
from driftline.config.settings import Settings
from driftline.errors import UsageError
from driftline.training.task import check_file, load_task
from driftline.training.task.builtin import BUILT_IN

SCHEDULE = key("run.schedule")


def read_task(settings: Settings, argument: str = "TASK") -> str:
    """Return the task whose workers are to train; what is wrong with it is added to the problems of ``settings``."""
    if settings.choice.text(SCHEDULE) == "script":
        settings.problems.add(f"{settings.choice.name(SCHEDULE)}: {TASK_SETS_NO_RATES}")
    return read_measured_task(settings, argument)


def read_measured_task(settings: Settings, argument: str = "TASK") -> str:
    """Return the task by which a run is measured, which scripts may train; otherwise as `read_task`."""
    task = settings.name(TASK_NAME, argument)
    settings.problems.attempt(lambda: check_task(task) if task else None, None)
    return task


def check_task(spec: str) -> None:
    """Refuse a task that cannot be one, without importing anything of it.

    Raises:
        UsageError: there is no such built-in task or file, or the text does not have the form of a task.
    """
    if not spec or spec.startswith(":") or spec.endswith(":"):
        raise UsageError(f"task {spec!r}: write a built-in name ({', '.join(sorted(BUILT_IN))}) or file.py:Attribute")
    if ":" not in spec and spec not in BUILT_IN:
        load_task(spec)  # says what is wrong; only a built-in name or a place is ever imported
    file, _, _ = spec.rpartition(":")
    if file.endswith(".py"):
        check_file(Path(file))
