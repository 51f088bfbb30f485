"""Which value a setting has, and its source: option, environment, file, default, in this order of precedence.

Values stay text here, as they were typed; they are read and checked elsewhere, all together.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from driftline.config.keys import KEYS, SCRIPT_ONLY
from driftline.config.pairs import split_pairs
from driftline.config.problems import Problems
from driftline.schemas.run.setting import ENVIRONMENT_PREFIX, Key, Kind

DEFAULT = "default"
_ALIKE = 0.8
"""How near a variable's name must be to a setting's to count as misspelt; others belong to other programs."""

NO_SETTINGS = frozenset({"DRIFTLINE_WORKER"})
"""Variables that look like misspelt settings and are none: that one is the name of a script's worker."""


@dataclass(frozen=True, slots=True)
class Given:
    """A value as text, and its source: an option, a keyword argument, a variable, or a line of a file."""

    text: str
    source: str


FileValues = Mapping[str, Sequence[Given]]
"""Keyword argument → what a file says: one value, or for pairs one ``name=value`` each."""

NO_FILE: FileValues = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Choice:
    """The settings of one command or call.

    Attributes:
        given: keyword argument → values that are not the default.
        in_python: whether arguments are called as Python does, not as options.
    """

    given: Mapping[str, tuple[Given, ...]]
    in_python: bool = False

    def text(self, key: Key) -> str | None:
        """Return the value that counts."""
        found = self.given.get(key.parameter)
        return found[0].text if found else key.default

    def pairs(self, key: Key) -> tuple[Given, ...]:
        """Return every ``name=value`` that counts."""
        return self.given.get(key.parameter, ())

    def source(self, key: Key) -> str:
        """Return where the value that counts was given."""
        found = self.given.get(key.parameter)
        return found[0].source if found else DEFAULT

    def name(self, key: Key) -> str:
        """Return how a problem with the value begins: its source, or how the setting would be given here."""
        return self.source(key) if self.is_given(key) else name_of(key, in_python=self.in_python)

    def is_given(self, key: Key) -> bool:
        """Whether the value is not the default."""
        return key.parameter in self.given


def name_of(key: Key, *, in_python: bool) -> str:
    """Return how a setting is called on the command line, or in Python."""
    return key.parameter if in_python else key.option or key.metavar


def choose(
    arguments: Mapping[str, str | Sequence[str]],
    environment: Mapping[str, str],
    file: FileValues = NO_FILE,
    *,
    in_python: bool = False,
) -> Choice:
    """Choose the value of every setting.

    Args:
        arguments: keyword argument → what was given on the command line or in Python; pairs are sequences.
        environment: every variable; an empty one gives nothing.
        file: what `read_file` found.
        in_python: whether arguments came from Python.
    """
    given: dict[str, tuple[Given, ...]] = {}
    for key in (*KEYS, *SCRIPT_ONLY):
        value = arguments.get(key.parameter, ())
        typed = (value,) if isinstance(value, str) else tuple(value)
        name = name_of(key, in_python=in_python)
        sources = (
            tuple(Given(one, name) for one in typed),
            _from_environment(key, environment),
            tuple(file.get(key.parameter, ())),
        )
        found = _merged(sources) if key.kind is Kind.PAIRS else next((one for one in sources if one), ())
        if found:
            given[key.parameter] = found
    return Choice(given, in_python)


def misspelt_variables(environment: Mapping[str, str], problems: Problems) -> None:
    """Add a problem for each variable that is no setting but looks like one."""
    known = [key.variable.removeprefix(ENVIRONMENT_PREFIX) for key in KEYS]
    for variable in environment:
        name = variable.removeprefix(ENVIRONMENT_PREFIX)
        if name == variable or name in known or variable in NO_SETTINGS:
            continue
        near = difflib.get_close_matches(name, known, n=1, cutoff=_ALIKE)
        if near:
            problems.add(f"{variable}: there is no such setting; did you mean {ENVIRONMENT_PREFIX}{near[0]}?")


def _from_environment(key: Key, environment: Mapping[str, str]) -> tuple[Given, ...]:
    text = "" if key.setting.script else environment.get(key.variable, "")
    values = split_pairs(text) if key.kind is Kind.PAIRS else [text] * bool(text)
    return tuple(Given(one, key.variable) for one in values)


def _merged(sources: Iterable[tuple[Given, ...]]) -> tuple[Given, ...]:
    """Let each name keep what the first source says of it; a name that one source gives twice is refused later."""
    merged: list[Given] = []
    names: set[str] = set()
    for source in sources:
        merged += [one for one in source if _name(one) not in names]
        names |= {_name(one) for one in source}
    return tuple(merged)


def _name(pair: Given) -> str:
    return pair.text.partition("=")[0].strip()
