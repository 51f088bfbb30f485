"""Rights that each role of a run needs, and the commands by which an administrator gives them."""

from collections.abc import Iterable, Mapping

from driftline.broker.kafka.errors import Right
from driftline.broker.topic_check import create_command
from driftline.broker.topics import Stream, run_topics, topic_name
from driftline.config.problems import Problems
from driftline.consumers.server.serving import SERVER_GROUPS

ROLES = ("server", "worker", "evaluator", "reader", "owner")
"""``reader`` only reads (status, top, show, verify); ``owner`` makes, ends and deletes runs."""

_READ: Mapping[str, tuple[Stream, ...]] = {
    "server": (Stream.DELTAS, Stream.EVENTS, Stream.LEDGER, Stream.SNAPSHOTS),
    "worker": (Stream.LEDGER, Stream.PARAMETERS),
    "evaluator": (Stream.EVENTS, Stream.LEDGER, Stream.PARAMETERS),
    "reader": tuple(Stream),
    "owner": (Stream.EVENTS, Stream.LEDGER, Stream.PARAMETERS),
}
_WRITE: Mapping[str, tuple[Stream, ...]] = {
    "server": (Stream.EVENTS, Stream.LEDGER, Stream.PARAMETERS, Stream.SNAPSHOTS),
    "worker": (Stream.DELTAS, Stream.EVENTS, Stream.SNAPSHOTS),
    "evaluator": (Stream.EVENTS,),
    "reader": (),
    "owner": (Stream.EVENTS, Stream.SNAPSHOTS),
}
_DELETE: Mapping[str, tuple[Stream, ...]] = {"server": (Stream.DELTAS,)}
"""Of records: under ``--retain checkpoint`` servers delete deltas that the last checkpoint makes needless."""
GROUPS = tuple(one.group for one in SERVER_GROUPS)
"""Consumer groups of a run: ``RUN.servers`` and ``RUN.coordinator``."""

PLACEHOLDERS: Mapping[str, str] = {role: f"User:{role.upper()}" for role in ROLES}
"""Role → placeholder of a principal that the user did not name."""


def rights_of(role: str, run: str) -> tuple[Right, ...]:
    """Return everything that a role needs for one run; reading and writing a topic imply describing it."""
    read = [Right("Read", "topic", topic_name(run, stream)) for stream in _READ[role]]
    write = [Right("Write", "topic", topic_name(run, stream)) for stream in _WRITE[role]]
    delete = [Right("Delete", "topic", topic_name(run, stream)) for stream in _DELETE.get(role, ())]
    groups = [Right("Read", "group", f"{run}.{group}") for group in GROUPS] if role == "server" else []
    operations = ("Create", "Delete", "Describe", "DescribeConfigs") if role == "owner" else ()
    own = [Right(operation, "topic", topic_name(run, stream)) for operation in operations for stream in Stream]
    return (*read, *write, *delete, *groups, *own)


def read_principals(pairs: Iterable[str], problems: Problems) -> dict[str, str]:
    """Return role → principal, from ``role=Type:name``."""
    named = dict(PLACEHOLDERS)
    for pair in pairs:
        role, _, principal = pair.partition("=")
        if role not in ROLES:
            problems.add(
                f"--principal {pair!r}: {role!r} is no role; write one of {', '.join(ROLES)}, as worker=User:ada"
            )
        elif not principal.partition(":")[2]:
            problems.add(f"--principal {pair!r}: {principal!r} is no principal; an example is {role}=User:ada")
        else:
            named[role] = principal
    return named


def heading(principals: Mapping[str, str]) -> str:
    """Return the line above the commands; it explains the placeholders in capitals, if there are any."""
    unnamed = [role for role in ROLES if principals[role] == PLACEHOLDERS[role]]
    explained = "; --principal ROLE=PRINCIPAL names " + ", ".join(map(str.upper, unnamed)) if unnamed else ""
    return f"An administrator runs those of these commands that are not done yet{explained}:"


def commands(run: str, partitions: int, principals: Mapping[str, str], bootstrap_servers: str) -> list[str]:
    """Return every command: topics first, then the rights of each role."""
    topics = [create_command(spec, bootstrap_servers) for spec in run_topics(run, partitions)]
    rights = [right.command(principals[role], bootstrap_servers) for role in ROLES for right in rights_of(role, run)]
    return topics + list(dict.fromkeys(rights))
