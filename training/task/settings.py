"""From ``name=value`` text to the fields of a task."""

import dataclasses
import difflib
import math
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from driftline.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from driftline.training.task import Task

TaskT = TypeVar("TaskT", bound="Task")


def apply_settings(task: type[TaskT] | TaskT, spec: str, settings: Mapping[str, str]) -> TaskT:
    """Build a task, or copy a built one, with settings given as text.

    Args:
        task: a dataclass, or an instance of one.
        spec: what the user calls it, for messages.
        settings: field name → text. ``none`` is None where the field may be None.

    Raises:
        ConfigError: lists every unknown name, unfit value and missing setting.
        UsageError: the task's own ``__init__`` refuses to be called so, or its batch size is below 1.
    """
    fields = {field.name: field for field in dataclasses.fields(task) if field.init}
    kinds = _kinds(task if isinstance(task, type) else type(task), fields)
    problems = [_unknown(name, spec, fields) for name in settings if name not in fields]
    values: dict[str, Any] = {}
    for name, text in settings.items():
        if name in fields:
            try:
                values[name] = _convert(text, kinds[name])
            except ValueError as error:
                problems.append(f"{spec}: setting {name}: {error}")
    if isinstance(task, type):
        problems += [
            f"{spec}: setting {name} has no default and is not given; add {name}=VALUE"
            for name, field in fields.items()
            if name not in settings and field.default is field.default_factory is dataclasses.MISSING
        ]
    if problems:
        raise ConfigError(problems)
    return _build(task, spec, values)


def _build(task: type[TaskT] | TaskT, spec: str, values: Mapping[str, Any]) -> TaskT:
    try:
        built = task(**values) if isinstance(task, type) else dataclasses.replace(task, **values)
    except (TypeError, ValueError) as error:
        raise UsageError(f"task {spec} cannot be built with {dict(values)}: {error}") from error
    batch_size = getattr(built, "batch_size", None)
    if not isinstance(batch_size, int) or batch_size < 1:
        raise UsageError(f"task {spec} has batch_size {batch_size!r}; it must be a whole number, at least 1")
    return built


def _unknown(name: str, spec: str, fields: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, fields, n=2)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"{spec}: unknown setting {name!r}{hint} (settings: {', '.join(fields) or 'none'})"


def _kinds(owner: type, fields: Mapping[str, "dataclasses.Field[Any]"]) -> dict[str, Any]:
    try:
        hints = get_type_hints(owner)
    except NameError:
        # Some annotation names what is imported for type checkers only; the others can still be read by name.
        plain = {"str": str, "int": int, "float": float, "bool": bool}
        hints = {name: plain.get(str(field.type), field.type) for name, field in fields.items()}
    return {name: hints.get(name, field.type) for name, field in fields.items()}


def _convert(text: str, kind: Any) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        if type(None) in get_args(kind) and text.lower() == "none":
            return None
        inner = [option for option in get_args(kind) if option is not type(None)]
        kind = inner[0] if len(inner) == 1 else kind
    converter = _CONVERTERS.get(kind)
    if converter is None:
        raise ValueError(f"is a {kind}, which cannot be set as text; only str, int, float and bool can")
    return converter(text)


def _to_int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None


def _to_float(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is not a finite number")
    return value


def _to_bool(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError(f"{text!r} is not true or false")
    return text.lower() == "true"


_CONVERTERS: Mapping[Any, Callable[[str], Any]] = {str: str, int: _to_int, float: _to_float, bool: _to_bool}
