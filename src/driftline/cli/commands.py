"""Every command of ``driftline`` with its options. Nothing here imports what the commands do."""

import click

from driftline.cli.options import CONNECTION, HOME, JSON, Option, argument, command, flag, group, setting, settings
from driftline.config.keys import METRICS, PATIENCE, RUN, RUN_NAME, TASK_NAME, TASK_SETTINGS, key

RUN_ARGUMENT, TASK_ARGUMENT = argument(RUN_NAME), argument(TASK_NAME)
NAMED_RUN = argument(RUN_NAME, metavar="NAME")
RUN_SETTINGS: list[click.Parameter] = [*(setting(one) for one in RUN), setting(TASK_SETTINGS)]
ROLE = [
    setting(PATIENCE),
    setting(METRICS),
    flag("--stop-with-stdin", text="Stop when standard input ends, so when the program that started this one ends."),
]


def _name(role: str) -> Option:
    return Option("--name", help=f"Name this {role}, unique in the run.", show_default="made of host and process id")


# -- training --------------------------------------------------------------------------------------------------------


@command(
    "train",
    [
        TASK_ARGUMENT,
        setting(RUN_NAME),
        *settings("train"),
        setting(METRICS),
        *RUN_SETTINGS,
        *CONNECTION,
        JSON,
        Option(
            "--chaos",
            "faults",
            metavar="FAULTS",
            help='Cause faults on purpose, such as "kill server-1@50, pause worker-2@80 for 5s" (docs/chaos.md).',
        ),
    ],
    "train digits --workers 4 --mode ssp --staleness 2",
)
def train() -> None:
    """Train TASK on this machine: start broker, servers and workers, watch them, and stop them.

    TASK is a built-in name (digits, fashion), package.module:Attribute or file.py:Attribute. Without
    --bootstrap-servers, the command uses the Kafka of --home. If that is not running, it starts it, and stops it at the
    end. Progress goes to stderr, the summary to stdout. Every process writes a log into the folder runs/NAME of --home.
    Without --run, the run gets the name of the task, with a number if that name is taken.
    """


@command(
    "train",
    [
        click.Argument(["faults"]),
        click.Argument(["training"], nargs=-1, type=click.UNPROCESSED, metavar="TASK [OPTIONS OF train]..."),
    ],
    'chaos "kill server-1@50, pause worker-2@80 for 5s" digits --steps 120',
    context_settings={"ignore_unknown_options": True},
)
def chaos() -> None:
    """Train TASK, let FAULTS happen, and prove the run at the end.

    The same as `driftline train TASK --chaos FAULTS`, and then `driftline verify`. Exit code 0 means that the run
    reached its end, and that recomputing its log gives the recorded bits. docs/chaos.md says what FAULTS may be.
    """


# -- roles -----------------------------------------------------------------------------------------------------------


@command("roles", [RUN_ARGUMENT, _name("server"), *CONNECTION, *ROLE], "server my-run --name server-1")
def server() -> None:
    """Serve RUN: apply what its workers write and publish parameters, until the run ends.

    Servers of a run share its partitions. Start as many as you like, before or after the workers. A server needs no
    torch.
    """


@command(
    "roles",
    [
        TASK_ARGUMENT,
        setting(RUN_NAME),
        _name("worker"),
        Option("--mark", default="", hidden=True, help="First bytes of its incarnations, chosen by `train`."),
        *RUN_SETTINGS,
        *CONNECTION,
        *ROLE,
    ],
    "worker digits --run my-run --workers 2 --name ada",
)
def worker() -> None:
    """Compute gradients of TASK for a run, until the run ends.

    TASK is a built-in name (digits, fashion), package.module:Attribute or file.py:Attribute. A run that does not exist
    is made with these settings. A run that exists has its settings already: leave them out here, or give the same
    values; with other values the worker is refused, and shows the differences. The order of the workers' names decides
    which worker reads which samples, so the same names give the same result.
    """


@command(
    "roles",
    [TASK_ARGUMENT, setting(RUN_NAME), _name("evaluator"), setting(TASK_SETTINGS), *CONNECTION, *ROLE],
    "evaluator digits --run my-run",
)
def evaluator() -> None:
    """Measure versions of a run on TASK's held-out data, and write the metrics into the run, until it ends.

    It measures about one version a second, and always the last one: a run with an evaluator waits for that result.
    `driftline train` has an evaluator of its own. If you start servers and workers by hand, one evaluator is enough.
    """


# -- looking ---------------------------------------------------------------------------------------------------------


@command("looking", [RUN_ARGUMENT, *CONNECTION, JSON], "status my-run --json")
def status() -> None:
    """Show where RUN stands, from its ledger and its newest events.

    Joins no group and writes nothing. If the broker of --home is not running, the command starts it, and stops it at
    the end.
    """


@command("looking", [RUN_ARGUMENT, *CONNECTION, JSON], "top my-run")
def top() -> None:
    """Watch RUN live: workers and what they wait for, servers and what they have applied, the last decisions.

    On a terminal the screen updates itself; q or Ctrl-C ends it. Without a terminal it prints one frame, for example:
    driftline top my-run | cat. Joins no group and writes nothing.
    """


@command(
    "looking",
    [RUN_ARGUMENT, click.Argument(["what"], default="head"), *CONNECTION, JSON],
    "show my-run ledger@-1 --json",
)
def show() -> None:
    """Show a version, the difference of two versions, or a record of RUN, decoded.

    \b
    driftline show RUN                 the newest version
    driftline show RUN 17              version 17: what went into it
    driftline show RUN 16..17          what changed between two published versions
    driftline show RUN ledger@12       a record of the ledger; @-1 is the last one
    driftline show RUN deltas/3@100    a record of partition 3 of the deltas

    The other streams are events, parameters and snapshots. Joins no group and writes nothing.
    """  # noqa: D301 - \b keeps click from joining the lines


@command(
    "looking",
    [
        RUN_ARGUMENT,
        Option(
            "--expect",
            metavar="HEAD",
            show_default=False,
            help="Prove that the ledger has this head at some record: 16 to 64 hex digits of a head that you kept.",
        ),
        *CONNECTION,
        JSON,
    ],
    "verify my-run",
)
def verify() -> None:
    """Prove RUN: its log is unchanged, and recomputing it gives the recorded bits.

    Joins no group and writes nothing. If the run has not ended, it is proven up to the present end of its ledger. If
    the broker of --home is not running, the command starts it, and stops it at the end.
    """


@command(
    "doctor",
    [
        RUN_ARGUMENT,
        Option(
            "--principal",
            "principals",
            multiple=True,
            metavar="ROLE=PRINCIPAL",
            help="Print the access rules for this principal as server, worker, reader or owner; repeatable.",
        ),
        setting(key("run.partitions")),
        *CONNECTION,
        JSON,
    ],
    "doctor my-run --bootstrap-servers kafka:9093 --principal worker=User:ada",
)
def doctor() -> None:
    """Examine a Kafka: addresses, limits, clock, and for RUN its topics and this client's rights.

    With RUN it prints the commands with which an administrator creates the topics and gives servers and workers their
    rights. It changes nothing, except that it creates and deletes a topic to compare the clocks, if it has the right.
    The exit code is 1 if there is a problem.
    """


@command(
    "config",
    [
        TASK_ARGUMENT,
        flag("--reference", text="Print a file with every setting at its default, commented."),
        setting(RUN_NAME),
        *RUN_SETTINGS,
        *CONNECTION,
        *settings("train", "role"),
        JSON,
    ],
    "config --reference > driftline.toml",
)
def config() -> None:
    """Show every setting and its source: an option, the environment, a file or the default. Asks no Kafka.

    Values of secret Kafka properties are masked. Problems are listed after the settings, with exit code 2.
    """


# -- runs ------------------------------------------------------------------------------------------------------------


@group("driftline.cli.runs:list_runs", [*CONNECTION, JSON], "runs list")
def runs() -> None:
    """List, create, stop and delete the runs of a Kafka.

    If the broker of --home is not running, the command starts it, and stops it at the end.
    """


@command("runs", [*CONNECTION, JSON], "runs list --json", parent=runs, name="list")
def list_runs() -> None:
    """List the runs; the same as `driftline runs`."""


@command(
    "runs",
    [
        NAMED_RUN,
        Option("--task", panel="Run and task", metavar="TASK", envvar=TASK_NAME.variable, show_envvar=True,
               help=TASK_NAME.setting.help),
        *RUN_SETTINGS,
        *CONNECTION,
        setting(PATIENCE)
    ],
    "runs create my-run --task digits --mode ssp --workers 4",
    parent=runs,
    short_help="Create a run, or only its topics.",
)  # fmt: skip
def create() -> None:
    """Create run NAME from a task and its settings, so that workers can join without repeating them.

    A run begins with a model, so it needs a task. The command creates the topics and proposes the run. A server of the
    run accepts the proposal; if no server is at work, the command does it. It does not train. Without --task it creates
    the topics only, and the first worker sets the settings of the run.
    """


@command(
    "runs",
    [
        NAMED_RUN,
        Option("--reason", default="driftline runs stop", show_default=True, help="Write this reason into the ledger."),
        *CONNECTION,
        setting(PATIENCE),
    ],
    "runs stop my-run",
    parent=runs,
    short_help="Stop a run at its present version.",
)
def stop() -> None:
    """Stop run NAME at its present version: that one is published, and every member ends with exit code 0.

    If no server of the run is at work, the command runs one until the end is in the ledger.
    """


@command(
    "runs",
    [argument(RUN_NAME, metavar="NAME", required=True, envvar=None), flag("--yes", text="Do not ask."), *CONNECTION],
    "runs delete my-run --yes",
    parent=runs,
    short_help="Delete the topics of a run.",
)
def delete() -> None:
    """Delete run NAME: its topics, with all their records. Its logs on this machine stay.

    If members are at work, the command stops the run first, so that they end and report why.
    """


# -- the Kafka on this machine ---------------------------------------------------------------------------------------

_NODE = [
    Option("--port", type=click.IntRange(1, 65535), help="Listen for clients at this port.",
           show_default="a free one, chosen once and kept"),
    Option("--nodes", type=int, metavar="N", help="Give a new broker N nodes: 1, 3, 5 or 7.",
           show_default="as many as it was made with, 1 for a new one"),
]  # fmt: skip


def _timeout(default_s: float, text: str) -> Option:
    kind, metavar = click.FloatRange(min=0, min_open=True), "SECONDS"
    return Option("--timeout", "timeout_s", type=kind, default=default_s, show_default=True, metavar=metavar, help=text)


_START = _timeout(120.0, "Wait up to this long for the start, without a first download.")


@group("", [], "broker start")
def broker() -> None:
    """Run an Apache Kafka on this machine, without Docker and without an installed Java.

    The first start fetches about 45 MB into the user's cache directory. The broker listens on 127.0.0.1 only.
    """


@command(
    "broker",
    [HOME, *_NODE, _START],
    "broker start",
    parent=broker,
    short_help="Start the broker in the background.",
)
def start() -> None:
    """Start the broker in the background, unless it runs already; it runs until `stop`.

    Starts only those nodes that do not run. Prints the bootstrap servers as soon as the broker answers.
    """


@command(
    "broker",
    [HOME, _timeout(30.0, "Kill the broker if it has not ended by itself after this long.")],
    "broker stop",
    parent=broker,
    name="stop",
)
def stop_broker() -> None:
    """Stop the broker; its data stays."""


@command("broker", [HOME, JSON], "broker status --json", parent=broker, name="status")
def status_broker() -> None:
    """Show the state of the broker, and of each of its nodes."""


@command(
    "broker",
    [click.Argument(["node"], type=int), HOME],
    "broker kill 2",
    parent=broker,
    short_help="Kill a node, as a crash would.",
)
def kill() -> None:
    """Kill the process of NODE (SIGKILL), as a crash would; `broker start` starts it again."""


@command(
    "broker",
    [HOME, *_NODE, _START],
    "broker run",
    parent=broker,
    short_help="Run the broker in the foreground, until Ctrl-C or SIGTERM.",
)
def run() -> None:
    """Run the broker in this process, until Ctrl-C (exit code 130) or SIGTERM (exit code 0)."""


@command(
    "broker", [], "broker prepare", parent=broker, short_help="Fetch Kafka now, so that even a first start is fast."
)
def prepare() -> None:
    """Fetch Kafka and make its ahead-of-time cache now, so that even a first start is fast."""
