"""Finding the settings: options, environment and file put together, for the command line and for Python alike."""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path

from driftline.config.choosing import NO_FILE, Choice, FileValues, choose, misspelt_variables
from driftline.config.file import read_file
from driftline.config.keys import BOUNDS, CONFIG_VARIABLE, DEFAULT_FILE, RUN, by_parameter
from driftline.config.problems import Problems
from driftline.config.run import RunWords
from driftline.config.run_settings import RunSettings
from driftline.errors import ConfigError


def find_file(named: str | None, environment: Mapping[str, str]) -> Path | None:
    """Return the file that counts: the one that is named, or `DEFAULT_FILE` of the working directory if it is there."""
    named = named or environment.get(CONFIG_VARIABLE)
    if named:
        return Path(named)
    return Path(DEFAULT_FILE) if Path(DEFAULT_FILE).is_file() else None


def load(
    options: Mapping[str, str | Sequence[str]],
    environment: Mapping[str, str],
    file: Path | None,
    problems: Problems,
) -> Choice:
    """Choose the value of every setting; see `choose` for the arguments.

    Problems that are found later are named after the place where the value was said.
    """
    misspelt_variables(environment, problems)
    choice = choose(options, environment, NO_FILE if file is None else _read(file, problems))
    choice.name_places(problems)
    return choice


def load_run_settings(
    run: str, said: Mapping[str, object], *, environment: Mapping[str, str], file: Path | None = None
) -> RunSettings:
    """Return the settings of a run, for callers in Python.

    Args:
        run: its name.
        said: what the caller chose, by the name of the option with ``_`` for ``-`` (``mode``, ``staleness`` …).
        environment: ``os.environ``, or nothing.
        file: to be read for what neither says; see `find_file`.

    Raises:
        ConfigError: lists everything that is wrong, with the place where it was said.
    """
    problems = Problems()
    known = by_parameter((*BOUNDS, *RUN))
    for name in said.keys() - known.keys():
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        problems.add(f"{name}: there is no such setting; {hint}")
    options = {name: str(value) for name, value in said.items() if value is not None}
    choice = load(options, environment, file, problems)
    settings = RunWords.of(choice).read(run, problems)
    problems.check()
    return settings


def _read(file: Path, problems: Problems) -> FileValues:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        problems.add(f"configuration file {file}: {error.strerror or error}; --config names another")
        return NO_FILE
    except UnicodeDecodeError as error:
        raise ConfigError([f"configuration file {file}: is no UTF-8 text (byte {error.start})"]) from None
    return read_file(str(file), text, problems)
