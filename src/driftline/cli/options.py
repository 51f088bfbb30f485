"""Options that several commands share. Values stay text here; ``driftline.config`` reads and checks them together."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.types import StringParamType

if TYPE_CHECKING:
    from driftline.config.connection import Connection
    from driftline.config.problems import Problems
    from driftline.config.run import RunWords

Command = TypeVar("Command", bound=Callable[..., Any])
DEFAULT_HOME = ".driftline"

Decorator = Callable[[Command], Command]


class Pair(StringParamType):
    """``name=value``; in an environment variable one a line, because values may hold spaces."""

    name = "NAME=VALUE"
    envvar_list_splitter = "\n"


def _all(command: Command, *options: Decorator[Command]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def connection_options(command: Command) -> Command:
    """Add the options that say which Kafka to use."""
    return _all(
        command,
        click.option(
            "--bootstrap-servers", metavar="HOST:PORT,…", envvar="DRIFTLINE_BOOTSTRAP_SERVERS", show_envvar=True,
            help="Addresses of Kafka. Default: the broker of --home.",
        ),
        click.option(
            "--kafka-property", "kafka_properties", type=Pair(), multiple=True, metavar="NAME=VALUE",
            envvar="DRIFTLINE_KAFKA_PROPERTIES", show_envvar=True, show_default=False,
            help="Property of the Kafka clients, as librdkafka names it; repeatable. Secrets belong into the "
            "environment variable, one a line: other users of the machine can see the command line.",
        ),
        click.option(
            "--connect-timeout", "timeout_s", type=click.FloatRange(min=0, min_open=True, max=3600), default=10.0,
            metavar="SECONDS", show_default=True, help="How long Kafka may take to answer at first.",
        ),
        home_option,
    )  # fmt: skip


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


def bound_options(command: Command) -> Command:
    """Add the options that say how drift is bounded, and how learning rates change."""
    return _all(
        command,
        click.option(
            "--mode", default="sync", metavar="MODE", show_default=True,
            help="How drift is bounded: sync (lock-step), ssp (up to --staleness versions), buffered (a version for "
            "every --buffer contributions), async (a version for each).",
        ),
        click.option(
            "--staleness", metavar="S", help="ssp: versions by which the fastest may be ahead. Default: 2."
        ),
        click.option(
            "--drop-slowest", default="0", metavar="B", show_default=True,
            help="sync, ssp: do not wait for the B slowest workers.",
        ),
        click.option("--buffer", metavar="K", help="buffered: contributions that make a version."),
        click.option(
            "--ahead", default="0", metavar="N", show_default=True,
            help="buffered, async: clocks that a worker may spend on one version; 0 for any number.",
        ),
        click.option(
            "--weighting", metavar="HOW",
            help="What stale work counts for: none, inverse (1/(1+t)) or polynomial ((1+t)^-exponent). Default: "
            "inverse if nothing else bounds how stale it gets.",
        ),
        click.option("--exponent", default="0.5", metavar="A", show_default=True, help="Of the polynomial weighting."),
        click.option("--max-staleness", metavar="T", help="Versions beyond which a contribution is --on-stale."),
        click.option(
            "--on-stale", default="reject", metavar="WHAT", show_default=True,
            help="Reject contributions that are too stale, or damp them.",
        ),
        click.option(
            "--max-age", default="0", metavar="SECONDS", show_default=True,
            help="Do not compute on parameters older than this while there are newer ones; 0 for no limit.",
        ),
        click.option(
            "--warmup", default="0", metavar="V", show_default=True,
            help="Versions over which learning rates rise to their full size.",
        ),
        click.option(
            "--decay", default="none", metavar="HOW", show_default=True,
            help="How they fall from there to the last version: none, linear or cosine.",
        ),
        click.option(
            "--final-rate", default="0", metavar="F", show_default=True,
            help="Share of the learning rates that is left at the last version.",
        ),
        click.option(
            "--clip-norm", default="0", metavar="NORM", show_default=True,
            help="Clip each worker's own gradient to this 2-norm, before the mean; 0 does not clip.",
        ),
        click.option(
            "--local-steps", default="1", metavar="H", show_default=True,
            help="Steps of the task's optimizer that a worker makes by itself before it contributes (DiLoCo).",
        ),
        click.option(
            "--outer-lr", default="0.7", metavar="LR", show_default=True,
            help="With local steps: learning rate of the servers' SGD with Nesterov momentum.",
        ),
        click.option(
            "--outer-momentum", default="0.9", metavar="M", show_default=True, help="With local steps: its momentum."
        ),
    )  # fmt: skip


def run_options(command: Command) -> Command:
    """Add the settings of a run that a person chooses."""
    return _all(
        command,
        bound_options,
        click.option(
            "--workers", default="3", metavar="N", show_default=True, help="Workers that version 1 waits for."
        ),
        click.option("--steps", metavar="V", help="End at this version. Default: 300, unless --epochs is given."),
        click.option("--epochs", metavar="E", help="End after so many passes over the data instead."),
        click.option(
            "--seed", default="0", metavar="S", show_default=True, help="Of model, data order and everything random."
        ),
        click.option(
            "--partitions", default="4", metavar="P", show_default=True,
            help="Of the topics that hold tensors; no more servers than these have work.",
        ),
        click.option(
            "--set", "task_settings", type=Pair(), multiple=True, metavar="NAME=VALUE",
            help="Setting of the task, for example learning_rate=0.01; repeatable.",
        ),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionWords:
    """What `connection_options` took."""

    bootstrap_servers: str | None
    kafka_properties: tuple[str, ...]
    timeout_s: float
    home: Path

    @classmethod
    def of(cls, options: dict[str, Any]) -> "ConnectionWords":
        """Take them out of a command's options."""
        return cls(**{name: options.pop(name) for name in cls.__slots__})

    def read(self, problems: "Problems") -> "Connection":
        """Return the connection that they ask for."""
        from driftline.config.connection import read_connection  # noqa: PLC0415 - keeps --help fast

        return read_connection(
            home=self.home,
            bootstrap_servers=self.bootstrap_servers,
            kafka_properties=self.kafka_properties,
            timeout_s=self.timeout_s,
            problems=problems,
        )


def connect(options: dict[str, Any]) -> "Connection":
    """Return the connection that a command's options ask for; for commands without other settings.

    Raises:
        ConfigError: lists everything that is wrong.
    """
    from driftline.config.problems import Problems  # noqa: PLC0415 - keeps --help fast

    problems = Problems()
    connection = ConnectionWords.of(options).read(problems)
    problems.check()
    return connection


def take_run_words(options: dict[str, Any]) -> "RunWords":
    """Take the settings of a run out of a command's options."""
    from driftline.config.bounds import BoundWords  # noqa: PLC0415 - keeps --help fast
    from driftline.config.run import RunWords  # noqa: PLC0415

    bounds = BoundWords(**{name: options.pop(name) for name in BoundWords.__slots__})
    names = [name for name in RunWords.__slots__ if name != "bounds"]
    return RunWords(bounds=bounds, **{name: options.pop(name) for name in names})


def say(line: str) -> None:
    """Tell the person at the terminal something that is no result."""
    click.echo(line, err=True)
