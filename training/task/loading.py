"""From the name of a task to the task: found, imported, checked and given its settings."""

import difflib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType

from driftline.config.keys import TASK_NAME, key
from driftline.config.run_settings import TASK_SETS_NO_RATES
from driftline.config.settings import Settings
from driftline.errors import UsageError
from driftline.training.task import Task
from driftline.training.task.settings import apply_settings

BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        "digits": "driftline.training.task.builtin.digits:Digits",
        "fashion": "driftline.training.task.builtin.fashion:Fashion",
    }
)
SPEC_FORMS = "a built-in name, package.module:Attribute or file.py:Attribute"
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


def load_task(spec: str, settings: Mapping[str, str] | None = None) -> Task:
    """Find and build a task.

    Modules are looked for in the working directory too, and a file's imports beside that file, as Python does for a
    script.

    Args:
        spec: a built-in name, ``package.module:Attribute`` or ``file.py:Attribute``. The attribute is a subclass of
            `Task`, or an instance.
        settings: names of the task's fields, with values as text.

    Raises:
        UsageError: there is no such task, or it is incomplete. Says what to write instead.
        ConfigError: settings are unknown or have values that do not fit; lists every one.
    """
    place = spec if ":" in spec else _built_in(spec)
    source, _, attribute = place.rpartition(":")
    if not source or not attribute:
        raise UsageError(f"task {spec!r} is not {SPEC_FORMS}")
    module = _import_file(Path(source)) if source.endswith(".py") else _import_module(source)
    return apply_settings(_checked(_attribute(module, attribute, source), spec), spec, settings or {})


def _built_in(name: str) -> str:
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name.endswith(".py") or "/" in name or "." in name:
        raise UsageError(f"task {name!r} does not say which attribute is the task; write {name}:NameOfTheTask")
    near = difflib.get_close_matches(name, BUILT_IN, n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else "."
    raise UsageError(f"no built-in task {name!r}{hint} Built in: {', '.join(sorted(BUILT_IN))}. TASK is {SPEC_FORMS}.")


def _import_module(name: str) -> ModuleType:
    if not name.startswith("driftline."):
        # The installed command, unlike `python -m`, does not look in the working directory by itself.
        _search_in(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UsageError(
                f"no module {name!r}: {error.name!r} is neither installed nor in the working directory; "
                f"run from the directory that holds it, or name the file: path/to/file.py:Attribute"
            ) from None
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:  # whatever a user's module does while it runs
        raise _broken(name, error) from error


def check_file(path: Path) -> None:
    """Return if a task's file is there.

    Raises:
        UsageError: it is not; says from where it was looked for.
    """
    if not path.is_file():
        raise UsageError(f"no file {str(path)!r} (working directory: {Path.cwd()}); name an existing file.py:Attribute")


def _import_file(path: Path) -> ModuleType:
    check_file(path)
    path = path.resolve()
    _search_in(path.parent)
    name = f"driftline_task_{path.stem}"
    known = sys.modules.get(name)
    if known is not None and known.__file__ == os.fspath(path):
        return known
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise UsageError(f"{str(path)!r} cannot be imported as Python")
    module = importlib.util.module_from_spec(found)
    # Registered before it runs, because dataclasses look their module up there.
    sys.modules[name] = module
    try:
        found.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _broken(path.name, error) from error
    return module


def _search_in(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _broken(source: str, error: BaseException) -> UsageError:
    if isinstance(error, SystemExit):
        return UsageError(f"{source} ends the process while it is imported; put that under if __name__ == '__main__'")
    if isinstance(error, ModuleNotFoundError) and error.name in {"torch", "sklearn"}:
        return UsageError(f"{source} needs {error.name}, which is not installed: pip install 'driftline[train]'")
    return UsageError(f"{source} cannot be imported: {type(error).__name__}: {error}{_place(error)}")


def _place(error: BaseException) -> str:
    """Say which line raised an error; a syntax error says so itself."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or isinstance(error, SyntaxError):
        return ""
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"


def _attribute(module: ModuleType, attribute: str, source: str) -> object:
    found: object = module
    for name in attribute.split("."):
        if not hasattr(found, name):
            tasks = [key for key, value in vars(module).items() if _is_task(value) and value is not Task]
            listing = f"the tasks in it are {', '.join(tasks)}" if tasks else "it holds no subclass of driftline.Task"
            raise UsageError(f"{source} has no attribute {attribute!r}; {listing}")
        found = getattr(found, name)
    return found


def _is_task(value: object) -> bool:
    return isinstance(value, Task) or (isinstance(value, type) and issubclass(value, Task))


def _checked(found: object, spec: str) -> type[Task] | Task:
    if not isinstance(found, Task) and not (isinstance(found, type) and issubclass(found, Task)):
        what = f"class {found.__name__}" if isinstance(found, type) else f"{type(found).__name__}"
        raise UsageError(f"{spec} is a {what}, not a subclass or an instance of driftline.Task")
    missing = sorted(getattr(found, "__abstractmethods__", ())) if inspect.isclass(found) else []
    if missing:
        raise UsageError(f"task {spec} lacks {', '.join(f'{name}()' for name in missing)}; every task defines them")
    return found
