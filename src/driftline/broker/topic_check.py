"""Whether topics that somebody else made hold what a run needs: one list of differences, each with its way out."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from driftline.broker.port import TopicSpec

LEAST_MESSAGE_BYTES = 1_000_128
"""The largest record of ours with the frame of its batch."""

ADDRESS = "ADDRESS"
"""Stands for the administrator's bootstrap servers in a command."""

FOR_EVER = -1


@dataclass(frozen=True, slots=True)
class Difference:
    """One setting of a topic that is not as needed. ``fix`` is a command, or what to do instead."""

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
    """Hold the topics that exist against what is needed of them.

    Args:
        specs: topics as driftline would make them.
        partitions: number of partitions of those that exist.
        configs: their settings, as far as they may be read.
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
    way_out = f"make it anew with {spec.partitions}" if spec.partitions == 1 else f"give the run --partitions {count}"
    return Difference(spec.name, "number of partitions", str(count), str(spec.partitions), way_out)


Fits = Callable[[str, str], bool]


def _needs(spec: TopicSpec) -> list[tuple[str, str, Fits]]:
    """Return settings with what is needed, and how what is found is held against it."""
    needs: list[tuple[str, str, Fits]] = [("max.message.bytes", str(LEAST_MESSAGE_BYTES), _at_least)]
    for setting, fits in _RELATIONS.items():
        if setting in spec.config:
            needs.append((setting, spec.config[setting], fits))
    return needs


def _same(found: str, needed: str) -> bool:
    return sorted(found.lower().split(",")) == sorted(needed.lower().split(","))


def _at_least(found: str, needed: str) -> bool:
    """Whether a number is large enough; -1 is without limit."""
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
    return "-1 (for ever)" if int(needed) == FOR_EVER else f"{needed} or more"


def _fix(spec: TopicSpec, setting: str, needed: str) -> str:
    words = ["kafka-configs.sh", "--bootstrap-server", ADDRESS, "--alter", "--entity-type", "topics"]
    return shlex.join([*words, "--entity-name", spec.name, "--add-config", f"{setting}={needed}"])


def create_command(spec: TopicSpec, bootstrap_servers: str = ADDRESS) -> str:
    """Return the command by which an administrator makes a topic."""
    words = ["kafka-topics.sh", "--bootstrap-server", bootstrap_servers, "--create", "--topic", spec.name]
    words += ["--partitions", str(spec.partitions)]
    for name, value in spec.config.items():
        words += ["--config", f"{name}={value}"]
    return shlex.join(words)
