"""Whether existing topics serve a run: settings that differ, and partitions that take no records."""

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from driftline.broker.port import TopicSpec

LEAST_MESSAGE_BYTES = 1_000_128
"""Our largest record with the frame of its batch."""

ADDRESS = "ADDRESS"
"""Placeholder for the bootstrap servers in a command for an administrator."""

FOR_EVER = -1


@dataclass(frozen=True, slots=True)
class Difference:
    """One setting of a topic that does not fit. ``fix`` is a command, or what to do instead."""

    topic: str
    setting: str
    found: str
    needed: str
    fix: str

    def __str__(self) -> str:
        return f"topic {self.topic}: {self.setting} is {self.found}, needed is {self.needed}; {self.fix}"


def topic_differences(
    specs: Sequence[TopicSpec], partitions: Mapping[str, int], configs: Mapping[str, Mapping[str, str]]
) -> list[Difference]:
    """Compare existing topics with what a run needs.

    Args:
        specs: topics as driftline would make them.
        partitions: number of partitions of each existing topic.
        configs: their settings, as far as this client may read them.
    """
    found: list[Difference] = []
    for spec in specs:
        count = partitions.get(spec.name, spec.partitions)
        if count != spec.partitions:
            found.append(_wrong_partitions(spec, count))
        config = configs.get(spec.name, {})
        for setting, needed, fits in _needs(spec):
            value = config.get(setting)
            if value is not None and not fits(value, needed):
                found.append(
                    Difference(spec.name, setting, value, _words(setting, needed), _fix(spec, setting, needed))
                )
    return found


def _wrong_partitions(spec: TopicSpec, count: int) -> Difference:
    way_out = f"make it again with {spec.partitions}" if spec.partitions == 1 else f"give the run --partitions {count}"
    return Difference(spec.name, "number of partitions", str(count), str(spec.partitions), way_out)


Fits = Callable[[str, str], bool]


def _needs(spec: TopicSpec) -> list[tuple[str, str, Fits]]:
    """Return each setting with its needed value and the function that compares a found value with it."""
    needs: list[tuple[str, str, Fits]] = [("max.message.bytes", str(LEAST_MESSAGE_BYTES), _at_least)]
    for setting, fits in _RELATIONS.items():
        if setting in spec.config:
            needs.append((setting, spec.config[setting], fits))
    return needs


def _same(found: str, needed: str) -> bool:
    return sorted(found.lower().split(",")) == sorted(needed.lower().split(","))


def _at_least(found: str, needed: str) -> bool:
    """Whether a number is large enough; -1 means no limit."""
    if int(found) == FOR_EVER:
        return True
    return int(needed) != FOR_EVER and int(found) >= int(needed)


_RELATIONS: Mapping[str, Fits] = {
    "cleanup.policy": _same,
    "message.timestamp.type": _same,
    "unclean.leader.election.enable": _same,
    "retention.ms": _at_least,
    "retention.bytes": _at_least,
}


def _words(setting: str, needed: str) -> str:
    if _RELATIONS.get(setting) is _same:
        return needed
    return "-1 (no limit)" if int(needed) == FOR_EVER else f"{needed} or more"


def _fix(spec: TopicSpec, setting: str, needed: str) -> str:
    words = ["kafka-configs.sh", "--bootstrap-server", ADDRESS, "--alter", "--entity-type", "topics"]
    return shlex.join([*words, "--entity-name", spec.name, "--add-config", f"{setting}={needed}"])


def create_command(spec: TopicSpec, bootstrap_servers: str = ADDRESS) -> str:
    """Return the command with which an administrator makes a topic."""
    words = ["kafka-topics.sh", "--bootstrap-server", bootstrap_servers, "--create", "--topic", spec.name]
    words += ["--partitions", str(spec.partitions)]
    for name, value in spec.config.items():
        words += ["--config", f"{name}={value}"]
    return shlex.join(words)


@dataclass(frozen=True, slots=True)
class Copies:
    """The nodes that have a partition, by id. ``leader`` is -1 while no node leads it."""

    leader: int
    replicas: Collection[int]
    in_sync: Collection[int]


def why_not_writable(topic: str, partitions: Mapping[int, Copies], least_in_sync: int | None) -> list[str]:
    """Return why a topic takes no records: partitions without a leader, or with too few replicas in sync.

    Args:
        topic: its name.
        partitions: the nodes of each partition.
        least_in_sync: the topic's ``min.insync.replicas``; None if unknown: then every replica counts.

    Returns:
        One sentence a partition; empty if all take records.
    """
    found = []
    for partition, copies in sorted(partitions.items()):
        name, away = f"{topic}[{partition}]", sorted(set(copies.replicas) - set(copies.in_sync))
        nodes = f"start {'node' if len(away) == 1 else 'nodes'} {', '.join(map(str, away))}"
        if copies.leader < 0:
            found.append(f"no node leads {name}" + (f"; {nodes}" if away else ""))
        elif len(copies.in_sync) < (len(copies.replicas) if least_in_sync is None else least_in_sync):
            least = "min.insync.replicas" + (" is not known" if least_in_sync is None else f" is {least_in_sync}")
            sync = f"{name} has {len(copies.in_sync)} of {len(copies.replicas)} replicas in sync, and {least}"
            found.append(sync + (f"; {nodes}" if away else ""))
    return found
