"""Which rights each role of a run needs: what an administrator gives, and what a test takes away one by one."""

from collections.abc import Mapping

from driftline.broker.kafka.errors import Right
from driftline.broker.topics import Stream, topic_name

ROLES = ("server", "worker", "reader", "owner")
"""``reader`` only looks (status, top, show, verify, an evaluator's parameters); ``owner`` makes and deletes topics."""

_READ: Mapping[str, tuple[Stream, ...]] = {
    "server": (Stream.DELTAS, Stream.EVENTS, Stream.LEDGER, Stream.SNAPSHOTS),
    "worker": (Stream.LEDGER, Stream.PARAMETERS),
    "reader": tuple(Stream),
    "owner": (),
}
_WRITE: Mapping[str, tuple[Stream, ...]] = {
    "server": (Stream.EVENTS, Stream.LEDGER, Stream.PARAMETERS),
    "worker": (Stream.DELTAS, Stream.EVENTS, Stream.SNAPSHOTS),
    "reader": (),
    "owner": (),
}
SERVER_GROUPS = ("servers", "coordinator")
"""Consumer groups of a run, ``RUN.servers`` and ``RUN.coordinator``."""


def rights_of(role: str, run: str) -> tuple[Right, ...]:
    """Return everything that a role needs for one run; reading and writing a topic imply describing it."""
    read = [Right("Read", "topic", topic_name(run, stream)) for stream in _READ[role]]
    write = [Right("Write", "topic", topic_name(run, stream)) for stream in _WRITE[role]]
    groups = [Right("Read", "group", f"{run}.{group}") for group in SERVER_GROUPS] if role == "server" else []
    operations = ("Create", "Delete", "Describe", "DescribeConfigs") if role == "owner" else ()
    own = [Right(operation, "topic", topic_name(run, stream)) for operation in operations for stream in Stream]
    return (*read, *write, *groups, *own)
