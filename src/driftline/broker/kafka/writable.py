"""Why a topic takes no records: partitions that nobody leads, or of which too few copies are in sync."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Copies:
    """Where a partition is: numbers of nodes. ``leader`` is -1 while nobody leads it."""

    leader: int
    replicas: Collection[int]
    in_sync: Collection[int]


def why_not_writable(topic: str, partitions: Mapping[int, Copies], least_in_sync: int | None) -> list[str]:
    """Return what keeps records from being written, one sentence a partition.

    Args:
        topic: its name.
        partitions: where each of them is.
        least_in_sync: the topic's ``min.insync.replicas``; None if it is not known: then every copy counts.
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
