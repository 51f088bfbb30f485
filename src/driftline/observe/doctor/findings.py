"""Problems of a Kafka for a run: facts in, findings out. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from driftline.broker.kafka.admin import Address
from driftline.broker.kafka.errors import Right
from driftline.broker.kafka.settings import GroupProtocol, suitable_protocol
from driftline.broker.topic_check import LEAST_MESSAGE_BYTES, Difference
from driftline.broker.topics import Stream
from driftline.observe.doctor.rights import ROLES, rights_of

OK, NOTE, PROBLEM = "ok", "note", "PROBLEM"

SESSION_MS = 6_000
"""Session time-out that driftline's servers request in a group."""

SKEW_NOTE_S = 2.0
SKEW_PROBLEM_S = 60.0
"""Logins by token and certificates begin to fail about there, and times in logs mislead."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was examined. ``level`` is `OK`, `NOTE` or `PROBLEM`."""

    level: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about a cluster, and about one run of it if ``run`` is not empty.

    Attributes:
        answer_s: seconds until the first answer.
        unreachable: address → why it cannot be used from here.
        settings: of a node; None if they may not be read.
        settings_problem: why they may not.
        clock_ahead_s: seconds by which this machine's clock is ahead of Kafka's; None if it is not known.
        clock_problem: why it is not.
        operations: ``topic NAME`` or ``group NAME``, of those that exist → operations that this client may perform.
        creation_problems: topic that does not exist → why this client cannot create it.
        differences: topics of the run with other settings than needed.
    """

    answer_s: float
    client: str
    addresses: Sequence[Address]
    unreachable: Mapping[Address, str] = field(default_factory=dict)
    settings: Mapping[str, str] | None = None
    settings_problem: str = ""
    clock_ahead_s: float | None = None
    clock_problem: str = ""
    run: str = ""
    operations: Mapping[str, frozenset[str]] = field(default_factory=dict)
    creation_problems: Mapping[str, str] = field(default_factory=dict)
    differences: Sequence[Difference] = ()


def findings(facts: Facts) -> list[Finding]:
    """Return all findings, in the order in which a person should read them."""
    found = [Finding(OK, "answer", f"Kafka answered in {facts.answer_s:.2f} s to {facts.client}")]
    found += [_about_address(address, facts.unreachable.get(address, "")) for address in facts.addresses]
    found += _about_settings(facts)
    found.append(_about_clock(facts))
    if facts.run:
        found += _about_topics(facts)
        found += _about_rights(facts)
    return found


def _about_address(address: Address, why_not: str) -> Finding:
    shown = f"node {address.node} is advertised as {address.host}:{address.port}"
    if not why_not:
        return Finding(OK, "address", f"{shown}, which takes connections from here")
    return Finding(
        PROBLEM,
        "address",
        f"{shown}, and {why_not}. Clients use what is advertised, whatever address they were given: make that name and "
        f"port reachable from here, or change advertised.listeners of the node",
    )


def _about_settings(facts: Facts) -> list[Finding]:
    if facts.settings is None:
        return [Finding(NOTE, "limits", f"not examined: {facts.settings_problem}")]
    settings = facts.settings
    return [
        *_limit(settings, "message.max.bytes", least=LEAST_MESSAGE_BYTES, level=NOTE),
        *(_limit(settings, "replica.fetch.max.bytes", least=LEAST_MESSAGE_BYTES, level=NOTE)),
        *_limit(settings, "group.min.session.timeout.ms", most=SESSION_MS, level=PROBLEM),
        *_limit(settings, "group.max.session.timeout.ms", least=SESSION_MS, level=PROBLEM),
        *_about_groups(settings),
        *_about_copies(settings, len(facts.addresses)),
    ]


def _limit(settings: Mapping[str, str], name: str, *, least: int = 0, most: int = 2**63, level: str) -> list[Finding]:
    if name not in settings:
        return []
    value = int(settings[name])
    if least <= value <= most:
        return [Finding(OK, "limits", f"{name} is {value}")]
    needed = f"at least {least}" if value < least else f"at most {most}"
    topics = "; the topics of a run set their own" if name == "message.max.bytes" else ""
    return [Finding(level, "limits", f"{name} is {value}, {needed} is needed{topics}")]


def _about_groups(settings: Mapping[str, str]) -> list[Finding]:
    chosen = suitable_protocol(settings, SESSION_MS / 1000)
    ms = (
        int(settings.get("group.consumer.session.timeout.ms", SESSION_MS))
        if chosen is GroupProtocol.CONSUMER
        else SESSION_MS
    )
    text = f"servers take part by the {chosen} protocol, so a dead one is noticed after {ms / 1000:g} s"
    if ms <= SESSION_MS:
        return [Finding(OK, "groups", text)]
    return [Finding(NOTE, "groups", f"{text}: lower group.consumer.session.timeout.ms, or allow the classic protocol")]


def _about_copies(settings: Mapping[str, str], nodes: int) -> list[Finding]:
    copies = settings.get("default.replication.factor", "1")
    if nodes > 1 and copies == "1":
        text = "default.replication.factor is 1: a run is lost with the node that holds it; 3 is usual"
        return [Finding(NOTE, "copies", text)]
    return [Finding(OK, "copies", f"{copies} of each partition, on {nodes} node{'' if nodes == 1 else 's'}")]


def _about_clock(facts: Facts) -> Finding:
    ahead_s = facts.clock_ahead_s
    if ahead_s is None:
        return Finding(NOTE, "clock", f"not compared: {facts.clock_problem}")
    shown = f"this machine's clock is {_duration(abs(ahead_s))} {'ahead of' if ahead_s > 0 else 'behind'} Kafka's"
    if abs(ahead_s) > SKEW_PROBLEM_S:
        way_out = (
            "set it by NTP. Training goes on, but certificates and tokens may be refused, and times in logs mislead"
        )
        return Finding(PROBLEM, "clock", f"{shown}; {way_out}")
    return Finding(NOTE if abs(ahead_s) > SKEW_NOTE_S else OK, "clock", shown)


def _duration(seconds: float) -> str:
    if seconds >= 3600:  # noqa: PLR2004 - an hour
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.2f} s"  # noqa: PLR2004 - a minute


def _about_topics(facts: Facts) -> list[Finding]:
    found = [Finding(PROBLEM, "topics", str(difference)) for difference in facts.differences]
    found += [Finding(NOTE, "topics", problem) for problem in facts.creation_problems.values()]
    there = sum(name.startswith("topic ") for name in facts.operations)
    if not found:
        others = "" if there == len(Stream) else ", the others could be made"
        found.append(
            Finding(OK, "topics", f"{there} of {len(Stream)} topics of run {facts.run} are there and fit{others}")
        )
    return found


def _about_rights(facts: Facts) -> list[Finding]:
    lacking = {role: missing_rights(facts, role) for role in ROLES}
    level = PROBLEM if all(lacking[role] for role in ("server", "worker", "reader")) else NOTE
    return [
        Finding(level, "rights", f"as {role} this client lacks: {', '.join(map(str, missing))}")
        if missing
        else Finding(OK, "rights", f"this client has what the role {role} needs, as far as topics exist")
        for role, missing in lacking.items()
    ]


def missing_rights(facts: Facts, role: str) -> list[Right]:
    """Return the rights of a role that this client lacks; those to a topic that does not exist are not known."""
    return [
        right
        for right in rights_of(role, facts.run)
        if (may := facts.operations.get(f"{right.kind} {right.name}")) is not None and right.operation not in may
    ]
