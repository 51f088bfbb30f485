"""Settings that no run freezes: which Kafka, which task, what one process does. Each start may give others.

One class is one section of the file. Settings of a run are in `driftline.config.run_settings`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from annotated_types import Interval

from driftline.schemas.run.setting import Kind, Setting, one_of


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSection:
    """Which Kafka, for every command."""

    panel: ClassVar[str] = "Kafka"

    bootstrap_servers: Annotated[
        str | None,
        Setting(
            "Use the Kafka at these addresses.",
            metavar="HOST:PORT,…",
            inferred="the broker of --home",
            example='"kafka-1:9092,kafka-2:9092"',
            kind=Kind.ADDRESSES,
        ),
    ] = None
    connect_timeout: Annotated[
        float,
        Interval(ge=0.001, le=3600),
        Setting("Wait up to this long for Kafka's first answer.", metavar="SECONDS"),
    ] = 10.0
    properties: Annotated[
        Mapping[str, str],
        Setting(
            "Set a property of the Kafka clients, as librdkafka names it; repeatable. Put secrets into the "
            "environment variable, one a line: other users of the machine can see the command line.",
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
            "Share partitions between servers by: consumer (the newer protocol; Kafka sets when a silent server is "
            "replaced), static (the classic one; a server that comes back gets its partitions again), classic (without "
            "that), or auto (consumer where Kafka replaces a silent server soon, as on the broker of --home, else "
            "static)."
        ),
    ] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSection:
    """What the workers of a run train."""

    panel: ClassVar[str] = "Run and task"

    name: Annotated[
        str | None,
        Setting(
            "Train this task: a built-in name (digits, fashion), package.module:Attribute or file.py:Attribute.",
            metavar="TASK",
            option="",
            example='"digits"',
        ),
    ] = None
    settings: Annotated[
        Mapping[str, str],
        Setting(
            "Set a field of the task, for example learning_rate=0.01; repeatable.",
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

    panel: ClassVar[str] = "Processes"

    servers: Annotated[
        int, Interval(ge=1, le=1_000), Setting("Start N servers.", zero="zero servers apply nothing")
    ] = 2
    broker_nodes: Annotated[
        int | None,
        Interval(ge=1, le=7),
        Setting(
            "Start the broker of --home with N nodes: 1, 3, 5 or 7.",
            inferred="as many as it was made with, 1 for a new one",
            example="3",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSection:
    """What `driftline server`, `worker` and `evaluator` do; metrics also for `driftline train`."""

    panel: ClassVar[str] = "Processes"

    patience: Annotated[
        float,
        Interval(ge=0.001, le=1e7),
        Setting("Give up after waiting this long for other members.", metavar="SECONDS"),
    ] = 600.0
    metrics: Annotated[
        str | None,
        Setting(
            "Serve metrics to Prometheus at http://HOST:PORT/metrics; with a port alone, to this machine only. "
            "`driftline train` gives each of its processes a port, counting up from PORT.",
            metavar="HOST:PORT",
            inferred="none are served",
            example='"0.0.0.0:9464"',
        ),
    ] = None
