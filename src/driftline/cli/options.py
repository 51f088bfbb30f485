"""Options that several commands share. Values stay text here; ``driftline.config`` reads and checks them together."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource
from click.types import StringParamType

from driftline.config.keys import (
    BROKER_NODES,
    CONFIG_VARIABLE,
    DEFAULT_FILE,
    KAFKA,
    METRICS,
    PATIENCE,
    RUN,
    RUN_NAME,
    SCHEDULE,
    SERVERS,
    TASK_SETTINGS,
    Key,
    Kind,
)
from driftline.errors import UsageError

if TYPE_CHECKING:
    from driftline.config.choosing import Choice
    from driftline.config.connection import Connection
    from driftline.config.run_settings import RunSettings
    from driftline.telemetry.exporting import Address

Command = TypeVar("Command", bound=Callable[..., Any])
DEFAULT_HOME = ".driftline"
MAX_SERVERS = 1_000

Decorator = Callable[[Command], Command]


class Pair(StringParamType):
    """``name=value``; in an environment variable one a line, because values may hold spaces."""

    name = "NAME=VALUE"
    envvar_list_splitter = "\n"


def _all(command: Command, *options: Decorator[Command]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def setting(key: Key) -> Decorator[Any]:
    """Make the option of a setting. What is typed is kept as text; who else may have said it is found out later."""
    if key.kind is Kind.PAIRS:
        return click.option(
            key.option, key.parameter, type=Pair(), multiple=True, metavar=key.metavar, envvar=key.variable,
            show_envvar=True, show_default=False, help=key.help,
        )  # fmt: skip
    return click.option(
        key.option, key.parameter, default=key.default, metavar=key.metavar, envvar=key.variable, show_envvar=True,
        show_default=key.default is not None, help=key.help,
    )  # fmt: skip


def config_option(command: Command) -> Command:
    """Add the option that names the file with the settings."""
    return click.option(
        "--config", metavar="FILE", envvar=CONFIG_VARIABLE, show_envvar=True,
        help=f"TOML file with settings. Default: {DEFAULT_FILE} in the working directory, if it is there.",
    )(command)  # fmt: skip


def connection_options(command: Command) -> Command:
    """Add the options that say which Kafka to use, and where settings are written."""
    return _all(command, *(setting(key) for key in KAFKA), config_option, home_option)


def home_option(command: Command) -> Command:
    """Add the option that says where state lies on this machine."""
    return click.option(
        "--home", type=click.Path(file_okay=False, path_type=Path), default=Path(DEFAULT_HOME), metavar="DIR",
        envvar="DRIFTLINE_HOME", show_envvar=True, show_default=True,
        help="Folder of this machine's broker and of the logs of runs.",
    )(command)  # fmt: skip


def json_option(command: Command) -> Command:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object (the last line).")(command)


def run_options(command: Command) -> Command:
    """Add the settings of a run that a person chooses."""
    return _all(command, *(setting(key) for key in (*RUN, TASK_SETTINGS)))


def run_name_option(command: Command) -> Command:
    """Add ``--run``."""
    named: Command = setting(RUN_NAME)(command)
    return named


class Words:
    """What a command was told, by options, environment and file; read and checked piece by piece.

    Attributes:
        choice: the value of every setting as text.
        problems: everything that is wrong; `check` raises it.
    """

    def __init__(self) -> None:
        from driftline.config.loading import find_file, load  # noqa: PLC0415 - keeps --help fast
        from driftline.config.problems import Problems  # noqa: PLC0415 - ditto

        typed = _typed(click.get_current_context())
        self.file = find_file(typed.pop("config", None), os.environ)
        self.problems: Problems = Problems()
        self.choice: Choice = load(typed, os.environ, self.file, self.problems)

    def text(self, key: Key) -> str:
        """Return the value of a setting that has a default."""
        return self.choice.text(key) or ""

    def name(self, key: Key, argument: str) -> str:
        """Return a name without which the command has nothing to do; ``argument`` is how it is typed."""
        text = self.choice.text(key)
        if not text:
            self.problems.add(f"{argument} is missing: give it, or set {key.variable}, or {key.path} in a file")
        return text or ""

    def connection(self) -> "Connection":
        """Read which Kafka to use."""
        from driftline.config.connection import read_connection  # noqa: PLC0415 - keeps --help fast

        return read_connection(self.choice, click.get_current_context().params["home"], self.problems)

    def run(self, name: str) -> "RunSettings":
        """Read the settings of a run."""
        from driftline.config.run import RunWords  # noqa: PLC0415 - keeps --help fast

        return RunWords.of(self.choice).read(name or "unnamed", self.problems)

    def check_task(self, task: str) -> None:
        """Refuse a task that cannot be one; nothing of it is imported."""
        from driftline.training.task import check_task  # noqa: PLC0415 - keeps --help fast

        self.problems.attempt(lambda: check_task(task) if task else None, None)
        if self.text(SCHEDULE) == "script":
            from driftline.config.run_settings import TASK_SETS_NO_RATES  # noqa: PLC0415 - ditto

            self.problems.add(f"{SCHEDULE.option}: {TASK_SETS_NO_RATES}")

    def task_settings(self) -> dict[str, str]:
        """Read the settings of the task, as text."""
        from driftline.config.pairs import read_pairs  # noqa: PLC0415 - keeps --help fast

        return read_pairs(TASK_SETTINGS.option, self.choice.pairs(TASK_SETTINGS), self.problems)

    def servers(self) -> int:
        """Read how many servers ``train`` starts."""
        zero = "zero servers apply nothing"
        return self.problems.whole(SERVERS.option, self.text(SERVERS), 1, MAX_SERVERS, zero=zero)

    def broker_nodes(self) -> int | None:
        """Read how many nodes the broker of this home is to have."""
        from driftline.broker.embedded.cluster import MAX_NODES, check_number  # noqa: PLC0415 - keeps --help fast

        text = self.choice.text(BROKER_NODES)
        if text is None:
            return None
        if self.choice.text(KAFKA[0]) is not None:
            self.problems.add(
                f"{BROKER_NODES.option}: that is for the broker of --home; remove it or {KAFKA[0].option}"
            )
        number = self.problems.whole(BROKER_NODES.option, text, 1, MAX_NODES)
        try:
            return check_number(number)
        except UsageError as error:
            self.problems.add(f"{BROKER_NODES.option}: {error}")
            return None

    def patience_s(self) -> float:
        """Read how long a role waits for others."""
        return self.problems.real(PATIENCE.option, self.text(PATIENCE), 0.001, 1e7)

    def metrics(self) -> "Address | None":
        """Read where figures are served; None if they are not asked for."""
        from driftline.config.address import read_address  # noqa: PLC0415 - keeps --help fast

        return read_address(METRICS.option, self.choice.text(METRICS), self.problems)

    def first_metrics(self, count: int) -> "Address | None":
        """Read where ``count`` processes serve figures, the first of them here; None if they are not asked for."""
        from driftline.config.address import read_first_address  # noqa: PLC0415 - keeps --help fast

        return read_first_address(METRICS.option, self.choice.text(METRICS), count, self.problems)


def _typed(context: click.Context) -> dict[str, Any]:
    """Return what stands on the command line; an option of a group counts for its commands too."""
    typed = {} if context.parent is None else _typed(context.parent)
    for name, value in context.params.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            typed[name] = value
    return typed


def connect() -> "Connection":
    """Return the connection that a command was asked for; for commands without other settings.

    Raises:
        ConfigError: lists everything that is wrong.
    """
    words = Words()
    connection = words.connection()
    words.problems.check()
    return connection


def say(line: str) -> None:
    """Tell the person at the terminal something that is no result."""
    click.echo(line, err=True)
