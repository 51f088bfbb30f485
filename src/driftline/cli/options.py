"""How commands are declared: options made from settings, listed by topic; implementations are imported late."""

import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from click.types import StringParamType

from driftline.cli.lazily import lazily
from driftline.config.keys import CONFIG_VARIABLE, DEFAULT_FILE, KEYS, PANELS, keys_in
from driftline.schemas.run.setting import Key, Kind

if TYPE_CHECKING:
    from driftline.config.settings import Settings
else:
    Settings = lazily("driftline.config.settings:Settings")

OTHER = PANELS[-1]
DEFAULT_HOME = Path(".driftline")
_PARAMETERS = frozenset(key.parameter for key in KEYS)


class Pair(StringParamType):
    """``name=value``; in an environment variable one a line, because values may hold spaces."""

    name = "NAME=VALUE"
    envvar_list_splitter = "\n"


class Option(click.Option):
    """An option that names its topic."""

    def __init__(self, *names: Any, panel: str = OTHER, **more: Any) -> None:
        super().__init__(list(names), **more)
        self.panel = panel


class Panels(click.Command):
    """Lists options topic by topic."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section a topic."""
        for panel in PANELS:
            options = [one for one in self.get_params(ctx) if getattr(one, "panel", OTHER) == panel]
            options = [one for one in options if isinstance(one, click.Option)]  # arguments are in the usage line
            records = [record for one in options if (record := one.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(panel):
                    formatter.write_dl(records)


class Command(Panels):
    """A command that is declared here and implemented elsewhere.

    Its implementation is called with the settings that were given, if the command takes any, and with every other
    option by name.
    """

    def __init__(self, path: str, params: Iterable[click.Parameter], example: str, **more: Any) -> None:
        callback = partial(_call, lazily(path))
        super().__init__(params=list(params), epilog=f"Example: driftline {example}", callback=callback, **more)


class Group(Panels, click.Group):
    """Commands under one name; without any it does what ``path`` names."""

    def __init__(self, path: str, params: Iterable[click.Parameter], example: str, **more: Any) -> None:
        implementation = lazily(path) if path else None

        def callback(**values: Any) -> None:
            if implementation is not None and click.get_current_context().invoked_subcommand is None:
                _call(implementation, **values)

        super().__init__(
            params=list(params),
            epilog=f"Example: driftline {example}",
            callback=callback,
            invoke_without_command=bool(path),
            **more,
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write options, then commands."""
        Panels.format_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)


def _call(implementation: Callable[..., Any], **values: Any) -> Any:
    """Call an implementation with the settings that were given, and with other options by name."""
    others = {name: value for name, value in values.items() if name not in _PARAMETERS and name != "config"}
    if "config" not in values:
        return implementation(**others)
    return implementation(settings_of(click.get_current_context()), **others)


def settings_of(context: click.Context) -> "Settings":
    """Return the settings that a command line, the environment and a file give."""
    typed = _typed(context)
    given = {name: value for name, value in typed.items() if name in _PARAMETERS}
    return Settings(given, os.environ, file=typed.get("config"))


def _typed(context: click.Context) -> dict[str, Any]:
    """Return what stands on the command line; an option of a group counts for its commands too."""
    typed = {} if context.parent is None else _typed(context.parent)
    for name, value in context.params.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            typed[name] = value
    return typed


def command(
    module: str, params: Iterable[click.Parameter], example: str, *, parent: click.Group | None = None, **more: Any
) -> Callable[[Callable[[], None]], Command]:
    """Make a command of a function that has nothing but its name and the text for ``--help``.

    Args:
        module: of this room; it holds the implementation, a function of the same name.
        params: arguments and options.
        example: words that follow ``driftline``.
        parent: the group that it belongs to.
        more: for click.
    """

    def decorate(function: Callable[[], None]) -> Command:
        path, usual = (
            f"driftline.cli.{module}:{function.__name__}",
            {"name": function.__name__, "help": function.__doc__},
        )
        made = Command(path, params, example, **(usual | more))
        if parent is not None:
            parent.add_command(made)
        return made

    return decorate


def group(path: str, params: Iterable[click.Parameter], example: str) -> Callable[[Callable[[], None]], Group]:
    """Make a group of commands; see `command`."""
    return lambda function: Group(path, params, example, name=function.__name__, help=function.__doc__)


def argument(key: Key, **more: Any) -> click.Argument:
    """Return an argument for a setting; without it, its variable or the file counts."""
    usual: dict[str, Any] = {"required": False, "envvar": key.variable}
    return click.Argument([key.parameter], **(usual | more))


def setting(key: Key) -> Option:
    """Return the option of a setting. What is typed stays text; other sources are found out later."""
    pairs = {"type": Pair(), "multiple": True} if key.kind is Kind.PAIRS else {"default": key.default}
    return Option(
        key.option or f"--{key.parameter}",
        key.parameter,
        panel=key.panel,
        metavar=key.metavar,
        envvar=key.variable,
        show_envvar=True,
        show_default=key.setting.inferred or key.default is not None,
        help=key.setting.help,
        **pairs,
    )


def settings(*sections: str, without: Iterable[Key] = ()) -> list[click.Parameter]:
    """Return the options of all settings in these sections of the file."""
    return [setting(key) for key in keys_in(*sections) if key not in without]


def flag(*names: str, text: str, **more: Any) -> Option:
    """Return an option without a value."""
    return Option(*names, is_flag=True, help=text, **more)


CONFIG = Option(
    "--config", metavar="FILE", envvar=CONFIG_VARIABLE, show_envvar=True, help="Read settings from this TOML file.",
    show_default=f"{DEFAULT_FILE} in the working directory, if it is there",
)  # fmt: skip
HOME = Option(
    "--home", type=click.Path(file_okay=False, path_type=Path), default=DEFAULT_HOME, metavar="DIR",
    envvar="DRIFTLINE_HOME", show_envvar=True, show_default=True,
    help="Keep this machine's broker and the logs of runs in this folder.",
)  # fmt: skip
JSON = flag("--json", "as_json", text="Print one JSON object, as the last line of stdout.")
CONNECTION = [*settings("kafka"), CONFIG, HOME]
"""Options of every command that uses a Kafka."""
