"""How a setting is declared: once, in the annotation of the field that holds it.

    staleness: Annotated[int, Interval(ge=0, le=100), Setting(help="Let the fastest worker be S versions ahead.")] = 0

The option, the variable, the key in the file, the keyword argument in Python, the row in the docs, the line of the
reference file and the check of the value all follow from that. This module imports no pydantic, so that ``--help`` is
fast; values are checked by `driftline.config.values` and `driftline.schemas.run.config_json`.
"""

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, ClassVar

from annotated_types import Interval, Len, Predicate

ENVIRONMENT_PREFIX = "DRIFTLINE_"
MAX_WHOLE = 2**53
"""Largest number of versions or samples: the largest whole number that every JSON reader takes exactly."""

Whole = Annotated[int, Interval(ge=0, le=MAX_WHOLE)]


class Kind(Enum):
    """What a value is in a file. On the command line and in the environment everything is text."""

    WHOLE = "a whole number"
    REAL = "a number"
    TEXT = "text"
    ADDRESSES = "text, or a list of texts"
    DURATION = 'text such as "2s", or a number of seconds'
    PAIRS = "a table of names and values"


_KINDS: Mapping[object, Kind] = {int: Kind.WHOLE, float: Kind.REAL, str: Kind.TEXT}


class Strict:
    """Base of the settings classes: pydantic takes no other fields, no text for a number, and no NaN or infinity.

    Attributes:
        panel: topic under which ``--help`` and the docs list the settings of a class.
    """

    __slots__ = ()
    panel: ClassVar[str] = ""
    __pydantic_config__ = {"extra": "forbid", "strict": True, "allow_inf_nan": False}  # noqa: RUF012 - pydantic's name


@dataclass(frozen=True, slots=True)
class Setting:
    """What an annotation says of a setting beside its type and range.

    Attributes:
        help: what it does, effect first; the default is added where the text is shown.
        panel: its topic, if that is not the topic of its class.
        metavar: stands for the value in ``--help``, if it does not follow from type and name.
        name: in a file, if that is not the field's name.
        option: on the command line, if that is not ``--name``; empty for an argument.
        variable: in the environment, if that does not follow from the option.
        default: as text, if it is not that of the field.
        inferred: how the default follows from other settings.
        example: value in the reference file, as TOML, if there is no default.
        kind: of the value in a file, if it does not follow from the type.
        expected: the valid values in words, if they do not follow from type and range.
        zero: what is wrong with 0, if there is more to say than the range.
        script: whether only the Python interface has it, because it belongs to a script and not to a machine.
    """

    help: str
    _: dataclasses.KW_ONLY
    panel: str = ""
    metavar: str = ""
    name: str = ""
    option: str | None = None
    variable: str = ""
    default: str | None = None
    inferred: str = ""
    example: str = ""
    kind: Kind | None = None
    expected: str = ""
    zero: str = ""
    script: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A setting, with all the names that it has.

    Attributes:
        section: table of the file that holds it.
        name: in that table.
        option: on the command line; empty for an argument.
        parameter: as a keyword argument in Python.
        variable: in the environment.
        panel: topic under which ``--help`` and the docs list it.
        metavar: what stands for the value in ``--help``.
        kind: of the value in a file.
        annotation: type and range of the value.
        default: as text; None if there is none, or if it follows from other settings.
        at: attributes that lead from an object of the settings class to the value.
        setting: as declared.
    """

    section: str
    name: str
    option: str
    parameter: str
    variable: str
    panel: str
    metavar: str
    kind: Kind
    annotation: Any
    default: str | None
    at: tuple[str, ...]
    setting: Setting

    @property
    def path(self) -> str:
        """Section and name."""
        return f"{self.section}.{self.name}"

    def of(self, settings: object) -> Any:
        """Return the value that an object of the settings class has."""
        for name in self.at:
            settings = getattr(settings, name)
        return settings


def keys_of(kind: type, section: str = "run", at: tuple[str, ...] = ()) -> Iterator[Key]:
    """Yield the settings of a settings class, and of the classes inside it, in the order of their fields."""
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        annotation, place = hints[field.name], (*at, field.name)
        setting = next((one for one in _metadata(annotation) if isinstance(one, Setting)), None)
        if setting is not None:
            default = setting.default if setting.default is not None or setting.inferred else _text(field.default)
            yield _key(setting, annotation, section, place, default, setting.panel or getattr(kind, "panel", ""))
        elif dataclasses.is_dataclass(annotation):
            yield from keys_of(typing.cast("type", annotation), section, place)


def _key(setting: Setting, annotation: Any, section: str, at: tuple[str, ...], default: str | None, panel: str) -> Key:
    name = setting.name or at[-1]
    option = f"--{name.replace('_', '-')}" if setting.option is None else setting.option
    parameter = option.removeprefix("--").replace("-", "_") or section
    kind = setting.kind or _KINDS.get(plain_type(annotation), Kind.TEXT)
    usual = {Kind.WHOLE: "N", Kind.REAL: "SECONDS" if at[-1].endswith("_s") else "X", Kind.DURATION: "TIME"}
    return Key(
        section=section,
        name=name,
        option=option,
        parameter=parameter,
        variable=setting.variable or f"{ENVIRONMENT_PREFIX}{parameter.upper()}",
        panel=panel,
        metavar=setting.metavar or usual.get(kind) or name.rpartition("_")[2].upper(),
        kind=kind,
        annotation=annotation,
        default=default,
        at=at,
        setting=setting,
    )


def one_of(*words: str) -> Predicate:
    """Return the annotation of a text that must be one of these words."""
    return Predicate(words.__contains__)


def choices(annotation: Any) -> tuple[str, ...]:
    """Return the words that `one_of` allows; empty without it."""
    found = (one.func.__self__ for one in _metadata(annotation) if isinstance(one, Predicate))  # type: ignore[attr-defined]
    return next(found, ())


def expected(annotation: Any) -> str:
    """Return the values that an annotation lets through, in words that follow "is not"."""
    for one in _metadata(annotation):
        if isinstance(one, Setting) and one.expected:
            return one.expected
    if choices(annotation):
        return f"one of {', '.join(choices(annotation))}"
    bounds = next((one for one in _metadata(annotation) if isinstance(one, Interval)), Interval())
    plain = plain_type(annotation)
    if plain is int:
        return f"a whole number from {bounds.ge} to {bounds.le}"
    if plain is float:
        return "a finite number" if bounds.ge is None else f"a number from {bounds.ge:g} to {bounds.le:g}"
    return "a non-empty text" if any(isinstance(one, Len) for one in _metadata(annotation)) else "a text"


def plain_type(annotation: Any) -> Any:
    """Return a type without what an annotation adds to it, and without None."""
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = annotation.__origin__
    if isinstance(annotation, types.UnionType):
        return plain_type(next(one for one in typing.get_args(annotation) if one is not types.NoneType))
    return annotation


def _metadata(annotation: Any) -> tuple[Any, ...]:
    return getattr(annotation, "__metadata__", ())


def _text(default: object) -> str | None:
    if default is None or default is dataclasses.MISSING:
        return None
    return f"{default:g}" if isinstance(default, float) else str(default)
