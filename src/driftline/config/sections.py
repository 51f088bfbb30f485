"""Settings that no run freezes: which Kafka, which task, what one process does. Each start may give others.

One class is one section of the file. Settings of a run are in `driftline.config.run_settings`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Interval

from driftline.schemas.run.setting import Kind, Setting, one_of

_KAFKA, _TASK, _PROCESSES = "Kafka", "Run and task", "Processes"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSection:
    """Which Kafka, for every command."""

    bootstrap_servers: Annotated[
        str | None,
        Setting(
            help="Use the Kafka at these addresses.",
            panel=_KAFKA,
            metavar="HOST:PORT,…",
            inferred="the broker of --home",
            example='"kafka-1:9092,kafka-2:9092"',
            kind=Kind.ADDRESSES,
        ),
    ] = None
    connect_timeout: Annotated[
        float,
        Interval(ge=0.001, le=3600),
        Setting(help="Wait so long for Kafka's first answer.", panel=_KAFKA, metavar="SECONDS"),
    ] = 10.0
    properties: Annotated[
        Mapping[str, str],
        Setting(
            help="Set a property of the Kafka clients, as librdkafka names it; repeatable. Secrets belong into the "
            "environment variable, one a line: other users of the machine can see the command line.",
            panel=_KAFKA,
            metavar="NAME=VALUE",
            option="--kafka-property",
            variable="DRIFTLINE_KAFKA_PROPERTIES",
            example='{ "security.protocol" = "SASL_SSL", "ssl.ca.location" = "ca.pem", "sasl.mechanism" = "PLAIN" }',
            kind=Kind.PAIRS,
        ),
    ] = field(default_factory=dict)
    group_protocol: Annotated[
        str,
        one_of("auto", "consumer", "static", "classic"),
        Setting(
            help="Share partitions between servers by: consumer (the newer protocol; Kafka says when a silent server "
            "is given up), static (the classic one; a server that comes back gets its partitions again), classic "
            "(without that), or auto (consumer where it notices a dead server soon, as on the broker of --home, else "
            "static).",
            panel=_KAFKA,
            metavar="HOW",
        ),
    ] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSection:
    """What the workers of a run train."""

    name: Annotated[
        str | None,
        Setting(
            help="Train this task: a built-in name (digits, fashion), package.module:Attribute or file.py:Attribute.",
            panel=_TASK,
            metavar="TASK",
            option="",
            example='"digits"',
        ),
    ] = None
    settings: Annotated[
        Mapping[str, str],
        Setting(
            help="Set a field of the task, for example learning_rate=0.01; repeatable.",
            panel=_TASK,
            metavar="NAME=VALUE",
            option="--set",
            variable="DRIFTLINE_TASK_SETTINGS",
            example="{ learning_rate = 0.01 }",
            kind=Kind.PAIRS,
        ),
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSection:
    """What `driftline train` starts on this machine."""

    servers: Annotated[
        int,
        Interval(ge=1, le=1_000),
        Setting(help="Start M servers.", panel=_PROCESSES, metavar="M", zero="zero servers apply nothing"),
    ] = 2
    broker_nodes: Annotated[
        int | None,
        Interval(ge=1, le=7),
        Setting(
            help="Start the broker of --home with N nodes: 1, 3, 5 or 7.",
            panel=_PROCESSES,
            metavar="N",
            inferred="as many as it was made with, 1 for a new one",
            example="3",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSection:
    """What `driftline server`, `worker` and `evaluator` do; metrics also for `driftline train`."""

    patience: Annotated[
        float,
        Interval(ge=0.001, le=1e7),
        Setting(help="Give up after waiting so long for other members.", panel=_PROCESSES, metavar="SECONDS"),
    ] = 600.0
    metrics: Annotated[
        str | None,
        Setting(
            help="Serve metrics to Prometheus at http://HOST:PORT/metrics; with a port alone, to this machine only. "
            "`driftline train` gives each of its processes a port, counting up from PORT.",
            panel=_PROCESSES,
            metavar="HOST:PORT",
            inferred="none are served",
            example='"0.0.0.0:9464"',
        ),
    ] = None
