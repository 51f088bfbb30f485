"""Every setting that a file, an environment variable or an option can give: one table, from which all three are made.

A key ``name`` of ``section`` in the file is ``--name`` on the command line and ``DRIFTLINE_NAME`` in the environment.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

ENVIRONMENT_PREFIX = "DRIFTLINE_"
CONFIG_VARIABLE = "DRIFTLINE_CONFIG"
DEFAULT_FILE = "driftline.toml"
"""Of the working directory; read if it is there and no other file is named."""


class Kind(Enum):
    """What a value may be in a file. On the command line everything is text."""

    WHOLE = "a whole number"
    REAL = "a number"
    TEXT = "text"
    ADDRESSES = "text, or a list of texts"
    DURATION = 'text such as "2s", or a number of seconds'
    PAIRS = "a table of names and values"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One setting.

    Attributes:
        section: table of the file that holds it.
        name: in that table.
        kind: of the value in a file.
        help: what it is, for ``--help`` and the reference file.
        default: as text; None if there is none, or if it depends on other settings (then ``help`` says how).
        metavar: what stands for the value in ``--help``.
        option: on the command line; empty if the setting is an argument there.
        parameter: name of the option's value in a command's function.
        variable: in the environment.
        example: value in the reference file, as TOML, where the default is none.
    """

    section: str
    name: str
    kind: Kind
    help: str
    default: str | None = None
    metavar: str = ""
    option: str = ""
    parameter: str = ""
    variable: str = ""
    example: str = ""

    @property
    def path(self) -> str:
        """Section and name, as a person would say it."""
        return f"{self.section}.{self.name}"


def _key(section: str, name: str, kind: Kind, **more: Any) -> Key:
    usual: dict[str, Any] = {
        "option": f"--{name.replace('_', '-')}",
        "parameter": name,
        "variable": f"{ENVIRONMENT_PREFIX}{name.upper()}",
    }
    return Key(section=section, name=name, kind=kind, **(usual | more))


KAFKA = (
    _key(
        "kafka", "bootstrap_servers", Kind.ADDRESSES, metavar="HOST:PORT,…", example='"kafka-1:9092,kafka-2:9092"',
        help="Addresses of Kafka. Default: the broker of --home.",
    ),
    _key(
        "kafka", "connect_timeout", Kind.REAL, default="10", metavar="SECONDS", parameter="timeout_s",
        help="How long Kafka may take to answer at first.",
    ),
    _key(
        "kafka", "properties", Kind.PAIRS, metavar="NAME=VALUE", option="--kafka-property",
        parameter="kafka_properties", variable="DRIFTLINE_KAFKA_PROPERTIES",
        example='{ "security.protocol" = "SASL_SSL", "ssl.ca.location" = "ca.pem", "sasl.mechanism" = "PLAIN" }',
        help="Property of the Kafka clients, as librdkafka names it; repeatable. Secrets belong into the environment "
        "variable, one a line: other users of the machine can see the command line.",
    ),
    _key(
        "kafka", "group_protocol", Kind.TEXT, default="auto", metavar="HOW",
        help="How servers share out partitions: consumer (the newer protocol, where Kafka says after which silence a "
        "server is given up), static (the classic one, where a server that comes back has its partitions again), "
        "classic (without that), or auto: consumer where that is soon, as on the broker of --home, static elsewhere.",
    ),
)  # fmt: skip

SCHEDULE = _key(
    "run", "schedule", Kind.TEXT, default="run", metavar="WHO",
    help="Who sets learning rates: run (by --warmup, --decay and --final-rate), or script: each script those of its "
    "own contributions.",
)  # fmt: skip

BOUNDS = (
    _key(
        "run", "mode", Kind.TEXT, default="sync", metavar="MODE",
        help="How drift is bounded: sync (lock-step), ssp (workers up to --staleness versions ahead), buffered (a "
        "version for every --buffer contributions), async (a version for each). Unless said: the one that has the "
        "bounds that are.",
    ),
    _key(
        "run", "staleness", Kind.WHOLE, metavar="S", example="2",
        help="ssp: versions by which the fastest may be ahead. Default: 2.",
    ),
    _key(
        "run", "drop_slowest", Kind.WHOLE, default="0", metavar="B",
        help="sync, ssp: do not wait for the B slowest workers.",
    ),
    _key(
        "run", "buffer", Kind.WHOLE, metavar="K", example="4",
        help="buffered: contributions that make a version.",
    ),
    _key(
        "run", "ahead", Kind.WHOLE, default="0", metavar="N",
        help="buffered, async: clocks that a worker may spend on one version; 0 for any number.",
    ),
    _key(
        "run", "weighting", Kind.TEXT, metavar="HOW", example='"inverse"',
        help="What stale work counts for: none, inverse (1/(1+t)) or polynomial ((1+t)^-exponent). Default: inverse if "
        "nothing else bounds how stale it gets.",
    ),
    _key("run", "exponent", Kind.REAL, default="0.5", metavar="A", help="Of the polynomial weighting."),
    _key(
        "run", "max_staleness", Kind.WHOLE, metavar="T", example="8",
        help="Versions beyond which a contribution is --on-stale.",
    ),
    _key(
        "run", "on_stale", Kind.TEXT, default="reject", metavar="WHAT",
        help="Reject contributions that are too stale, or damp them.",
    ),
    _key(
        "run", "max_age", Kind.REAL, default="0", metavar="SECONDS",
        help="Do not compute on parameters older than this while there are newer ones; 0 for no limit.",
    ),
    SCHEDULE,
    _key(
        "run", "warmup", Kind.WHOLE, default="0", metavar="V",
        help="Versions over which learning rates rise to their full size.",
    ),
    _key(
        "run", "decay", Kind.TEXT, default="none", metavar="HOW",
        help="How they fall from there to the last version: none, linear or cosine.",
    ),
    _key(
        "run", "final_rate", Kind.REAL, default="0", metavar="F",
        help="Share of the learning rates that is left at the last version.",
    ),
    _key(
        "run", "clip_norm", Kind.REAL, default="0", metavar="NORM",
        help="Clip each worker's own gradient to this 2-norm, before the mean; 0 does not clip.",
    ),
    _key(
        "run", "local_steps", Kind.WHOLE, default="1", metavar="H",
        help="Steps of the task's optimizer that a worker makes by itself before it contributes (DiLoCo).",
    ),
    _key(
        "run", "clock", Kind.DURATION, default="0", metavar="TIME",
        help="Time box of one clock, for example 2s or 500ms: a worker reads as many batches as fit, and its "
        "contribution weighs as much as it did; 0 for one batch a clock.",
    ),
    _key(
        "run", "outer_lr", Kind.REAL, default="0.7", metavar="LR",
        help="With local steps: learning rate of the servers' SGD with Nesterov momentum.",
    ),
    _key("run", "outer_momentum", Kind.REAL, default="0.9", metavar="M", help="With local steps: its momentum."),
)  # fmt: skip

RUN_NAME = _key(
    "run", "name", Kind.TEXT, metavar="NAME", option="--run", parameter="run", variable="DRIFTLINE_RUN",
    example='"my-run"', help="Name of the run.",
)  # fmt: skip

RUN = (
    *BOUNDS,
    _key("run", "workers", Kind.WHOLE, default="3", metavar="N", help="Workers that version 1 waits for."),
    _key(
        "run", "steps", Kind.WHOLE, metavar="V", example="200",
        help="End at this version. Default: 200, unless --epochs is given.",
    ),
    _key(
        "run", "epochs", Kind.WHOLE, metavar="E", example="5",
        help="End after so many passes over the data instead.",
    ),
    _key(
        "run", "seed", Kind.WHOLE, default="0", metavar="S", help="Of model, data order and everything random."
    ),
    _key(
        "run", "partitions", Kind.WHOLE, default="4", metavar="P",
        help="Of the topics that hold tensors; no more servers than these have work.",
    ),
    _key(
        "run", "snapshot_every", Kind.WHOLE, default="100", metavar="V",
        help="Versions between two snapshots of the whole state, from which servers go on after a failure; 0 for none.",
    ),
    _key(
        "run", "retain", Kind.TEXT, default="all", metavar="WHAT",
        help="Which deltas are kept: all (every version can be recomputed), or checkpoint (those before the last "
        "snapshots are deleted, and the disk stays flat).",
    ),
    _key(
        "run", "gone_after", Kind.WHOLE, default="12", metavar="TICKS",
        help="Remove a worker that was silent for so many ticks of 0.25 s. One that `driftline train` has started "
        "itself is removed as soon as its process has ended.",
    ),
)  # fmt: skip

TASK_NAME = _key(
    "task", "name", Kind.TEXT, metavar="TASK", option="", parameter="task", variable="DRIFTLINE_TASK",
    example='"digits"', help="What is trained: a built-in name (digits, fashion), package.module:Attribute or "
    "file.py:Attribute.",
)  # fmt: skip

TASK_SETTINGS = _key(
    "task", "settings", Kind.PAIRS, metavar="NAME=VALUE", option="--set", parameter="task_settings",
    variable="DRIFTLINE_TASK_SETTINGS", example="{ learning_rate = 0.01 }",
    help="Setting of the task, for example learning_rate=0.01; repeatable.",
)  # fmt: skip

SERVERS = _key("train", "servers", Kind.WHOLE, default="2", metavar="M", help="Server processes to start.")

BROKER_NODES = _key(
    "train", "broker_nodes", Kind.WHOLE, metavar="N", example="3",
    help="Nodes of the broker of --home: 1, 3, 5 or 7. Default: as many as it was made with; 1 for a new one.",
)  # fmt: skip

PATIENCE = _key(
    "role", "patience", Kind.REAL, default="600", metavar="SECONDS", parameter="patience_s",
    help="Give up after waiting so long for others.",
)  # fmt: skip

METRICS = _key(
    "role", "metrics", Kind.TEXT, metavar="HOST:PORT", example='"0.0.0.0:9464"',
    help="Serve figures to Prometheus at http://HOST:PORT/metrics; with a port alone, to this machine only. `driftline "
    "train` gives its processes one port each, counting up from PORT. Default: no figures.",
)  # fmt: skip

KEYS = (*KAFKA, RUN_NAME, *RUN, TASK_NAME, TASK_SETTINGS, SERVERS, BROKER_NODES, PATIENCE, METRICS)

SECTIONS = {
    "kafka": "Which Kafka, for every command.",
    "run": "What a run is. It is frozen when the run is made; whoever joins later need not repeat it.",
    "task": "What its workers train.",
    "train": "What `driftline train` starts on this machine.",
    "role": "Of `driftline server`, `driftline worker` and `driftline evaluator`; metrics of `driftline train`, too.",
}
"""Section of a file → what is in it."""


def by_parameter(keys: Sequence[Key] = KEYS) -> dict[str, Key]:
    """Return the keys by the name that they have in a command's function."""
    return {key.parameter: key for key in keys}
