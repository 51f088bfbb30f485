"""Which value a setting has, and who said so: option, environment, file, default, in this order of precedence.

Values stay text here, as somebody typed them; what they mean is read and checked elsewhere, all together.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from driftline.config.keys import ENVIRONMENT_PREFIX, KEYS, Key, Kind
from driftline.config.problems import Problems

DEFAULT = "default"
_ALIKE = 0.8
"""How near a variable's name must be to a setting's to be taken for a misspelling; others are somebody else's."""

NO_SETTINGS = frozenset({"DRIFTLINE_WORKER"})
"""Variables that look like misspelt settings and are none: that one is the name of a script's worker."""


@dataclass(frozen=True, slots=True)
class Said:
    """A value as text, and where it was said: an option, a variable, or a line of a file."""

    text: str
    place: str


FileValues = Mapping[str, Sequence[Said]]
"""Parameter → what a file says: one value, or for pairs one ``name=value`` each."""

NO_FILE: FileValues = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Choice:
    """The settings of one command; ``said`` has what is not a default."""

    said: Mapping[str, tuple[Said, ...]]

    def text(self, key: Key) -> str | None:
        """Return the value that counts."""
        found = self.said.get(key.parameter)
        return found[0].text if found else key.default

    def pairs(self, key: Key) -> tuple[str, ...]:
        """Return every ``name=value`` that counts."""
        return tuple(one.text for one in self.said.get(key.parameter, ()))

    def place(self, key: Key) -> str:
        """Return where the value that counts was said."""
        found = self.said.get(key.parameter)
        return found[0].place if found else DEFAULT

    def is_said(self, key: Key) -> bool:
        """Whether somebody chose the value."""
        return key.parameter in self.said

    def name_places(self, problems: Problems) -> None:
        """Let problems that begin with an option begin with the place where its value was said instead."""
        for key in KEYS:
            for one in self.said.get(key.parameter, ()):
                if key.kind is Kind.PAIRS:
                    name = one.text.partition("=")[0].strip()
                    problems.places |= {f"{key.option} {name}": f"{one.place} {name}", f"Kafka property {name}": (
                        f"{one.place}: Kafka property {name}"
                    )}  # fmt: skip
                elif key.option and one.place != key.option:
                    problems.places[key.option] = one.place


def choose(
    options: Mapping[str, str | Sequence[str]],
    environment: Mapping[str, str],
    file: FileValues = NO_FILE,
    *,
    keys: Iterable[Key] = KEYS,
) -> Choice:
    """Choose the value of every key.

    Args:
        options: parameter → what was given on the command line; pairs are sequences.
        environment: every variable; an empty one says nothing.
        file: what `read_file` found.
        keys: of the settings that matter.
    """
    said: dict[str, tuple[Said, ...]] = {}
    for key in keys:
        sources = (_from_options(key, options), _from_environment(key, environment), tuple(file.get(key.parameter, ())))
        found = _merged(sources) if key.kind is Kind.PAIRS else next((one for one in sources if one), ())
        if found:
            said[key.parameter] = found
    return Choice(said)


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


def _from_options(key: Key, options: Mapping[str, str | Sequence[str]]) -> tuple[Said, ...]:
    given = options.get(key.parameter)
    if given is None:
        return ()
    place = key.option or key.metavar
    return tuple(Said(one, place) for one in ((given,) if isinstance(given, str) else given))


def _from_environment(key: Key, environment: Mapping[str, str]) -> tuple[Said, ...]:
    text = environment.get(key.variable, "")
    if not text:
        return ()
    values = [line for line in text.split("\n") if line.strip()] if key.kind is Kind.PAIRS else [text]
    return tuple(Said(one, key.variable) for one in values)


def _merged(sources: Iterable[tuple[Said, ...]]) -> tuple[Said, ...]:
    """Let each name keep what the first source says of it; a name that one source says twice is left to be refused."""
    merged: list[Said] = []
    names: set[str] = set()
    for source in sources:
        merged += [one for one in source if _name(one) not in names]
        names |= {_name(one) for one in source}
    return tuple(merged)


def _name(pair: Said) -> str:
    return pair.text.partition("=")[0].strip()
