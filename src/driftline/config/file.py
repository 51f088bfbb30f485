"""The settings of a TOML file, checked for unknown names and wrong types, each with its line."""

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from driftline.config.choosing import FileValues, Given
from driftline.config.keys import KEYS, SECTIONS
from driftline.config.problems import Problems, hint
from driftline.config.toml_habits import habits
from driftline.schemas.run.setting import Key, Kind

_HEADER = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]")
_ENTRY = re.compile(r"""\s*([A-Za-z0-9_."'-]+(?:\s*\.\s*[A-Za-z0-9_."'-]+)*)\s*=""")

_STOPPED = re.compile(r"at line (\d+)")


def read_file(path: str, text: str, problems: Problems) -> FileValues:
    """Return the values of a file, by keyword argument; what is wrong goes into ``problems``.

    Args:
        path: as it shall be named in messages.
        text: of the file.
        problems: gets every unknown name and wrong type, or what keeps the text from being TOML.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = dict(habits(text))
        for line, advice in found.items():
            problems.add(f"{path}:{line}: {advice}")
        stopped = _STOPPED.search(str(error))
        number = int(stopped[1]) if stopped else len(text.splitlines())
        if number not in found:
            problems.add(f"{path}:{number}: {_sentence(str(error))}")
        return {}
    return _Reading(path, _lines(text), problems).read(data)


class _Reading:
    """One file that is TOML."""

    def __init__(self, path: str, lines: Mapping[str, int], problems: Problems) -> None:
        self._path, self._lines, self._problems = path, lines, problems

    def read(self, data: Mapping[str, Any]) -> FileValues:
        values: dict[str, tuple[Given, ...]] = {}
        for section, table in data.items():
            if section not in SECTIONS:
                self._add(section, f"{section}: {_no_section(section, is_table=isinstance(table, dict))}")
            elif not isinstance(table, dict):
                self._add(section, f"{section}: is a section; write [{section}] on a line of its own")
            else:
                values |= self._section(section, table)
        return values

    def _section(self, section: str, table: Mapping[str, Any]) -> dict[str, tuple[Given, ...]]:
        known = {key.name: key for key in KEYS if key.section == section}
        values = {}
        for name, value in table.items():
            if name not in known:
                self._add(f"{section}.{name}", f"{section}.{name}: there is no such setting{_hint(section, name)}")
                continue
            key = known[name]
            given = self._pairs(key, value) if key.kind is Kind.PAIRS else self._one(key, value)
            if given:
                values[key.parameter] = given
        return values

    def _one(self, key: Key, value: object) -> tuple[Given, ...]:
        if key.kind is Kind.ADDRESSES and isinstance(value, list) and all(isinstance(one, str) for one in value):
            value = ",".join(value)
        problem = _type_problem(key.kind, value)
        if problem:
            self._add(key.path, f"{key.path}: {problem}")
            return ()
        return (Given(str(value), f"{self._where(key.path)}: {key.path}"),)

    def _pairs(self, key: Key, value: object) -> tuple[Given, ...]:
        if not isinstance(value, dict):
            self._add(key.path, f"{key.path}: {_shown(value)} is no table; write [{key.path}] and one name a line")
            return ()
        given = []
        for name, one in _leaves("", value):
            path = f"{key.path}.{name}"
            if isinstance(one, bool | int | float | str):
                text = str(one).lower() if isinstance(one, bool) else str(one)
                given.append(Given(f"{name}={text}", f"{self._where(path)}: {key.path}"))
            else:
                self._add(path, f"{path}: {_shown(one)} is neither text nor a number; write it in quotes")
        return tuple(given)

    def _where(self, path: str) -> str:
        line = self._lines.get(path)
        return self._path if line is None else f"{self._path}:{line}"

    def _add(self, path: str, problem: str) -> None:
        self._problems.add(f"{self._where(path)}: {problem}")


def _type_problem(kind: Kind, value: object) -> str:
    match kind, value:
        case ((Kind.WHOLE | Kind.REAL | Kind.DURATION), bool()):
            return f"{_shown(value)} is not {kind.value}"
        case (
            (Kind.WHOLE, int())
            | (Kind.REAL | Kind.DURATION, int() | float())
            | (Kind.TEXT | Kind.ADDRESSES | Kind.DURATION, str())
        ):
            return ""
        case (Kind.WHOLE | Kind.REAL, str()) if _is_number(value):
            return f"{_shown(value)} is text, not {kind.value}; write {value.strip()}, without quotes"
        case Kind.WHOLE, float():
            return f"{_shown(value)} is not {kind.value}"
        case ((Kind.TEXT | Kind.ADDRESSES), (bool() | int() | float())):
            return f"{_shown(value)} is not {kind.value}; write it in quotes"
    return f"{_shown(value)} is not {kind.value}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _shown(value: object) -> str:
    """Return a value as TOML writes it, as far as a message needs it."""
    match value:
        case bool():
            return str(value).lower()
        case dict():
            return "a table"
        case list():
            return "a list"
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


_MOST_SHOWN = 40


def _leaves(prefix: str, table: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield what is in a table and in those inside it: ``a.b = 1`` without quotes is a table of its own for TOML."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}", value


def _no_section(name: str, *, is_table: bool) -> str:
    if is_table:
        near = difflib.get_close_matches(name, SECTIONS, n=1)
        return f"there is no such section; {f'did you mean [{near[0]}]?' if near else hint(name, SECTIONS)}"
    homes = [key.section for key in KEYS if key.name == name]
    if homes:
        return f"belongs into a section: write it under {' or '.join(f'[{home}]' for home in homes)}"
    return f"there is no such setting; settings stand in the sections {', '.join(SECTIONS)}"


def _hint(section: str, name: str) -> str:
    elsewhere = [key for key in KEYS if key.section != section and key.name == name]
    if elsewhere:
        return f"; it belongs into [{elsewhere[0].section}]"
    here = [key.name for key in KEYS if key.section == section]
    near = difflib.get_close_matches(name, here, n=1)
    if near:
        return f"; did you mean {near[0]}?"
    anywhere = difflib.get_close_matches(name, [key.name for key in KEYS], n=1)
    home = next((key.path for key in KEYS if key.name in anywhere), None)
    return f"; did you mean {home}?" if home else f"; there are {', '.join(here)}"


def _lines(text: str) -> dict[str, int]:
    """Return the line of every key that begins a line, by section and name. Good for messages, for nothing else."""
    found: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        header = _HEADER.match(line)
        entry = _ENTRY.match(line)
        if header:
            section = _bare(header[1])
            found.setdefault(section, number)
        elif entry:
            found.setdefault(f"{section}.{_bare(entry[1])}" if section else _bare(entry[1]), number)
    return found


def _bare(name: str) -> str:
    return ".".join(part.strip() for part in name.replace('"', "").replace("'", "").split("."))


def _sentence(text: str) -> str:
    return f"{text[:1].lower()}{text[1:]}"
