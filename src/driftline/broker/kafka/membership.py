"""How a member takes part in a consumer group: by which of Kafka's protocols, chosen by what the brokers offer.

What matters is how soon the others get the partitions of a member that died without a word, which is when its session
ends. With the newer protocol the brokers say how long that is, with the classic one the member does, within limits.
"""

from collections.abc import Mapping
from enum import StrEnum

AUTO = "auto"


class Protocol(StrEnum):
    """A way to take part.

    ``CONSUMER`` is Kafka's newer protocol (KIP-848): the brokers share out the partitions, and say after which silence
    a member is given up. With ``CLASSIC`` and ``STATIC`` a member does. A static member is known by its name: if it
    comes back within its session, it owns its partitions again, and nobody else is disturbed; in return it also keeps
    them that long when it leaves on purpose.
    """

    CONSUMER = "consumer"
    STATIC = "static"
    CLASSIC = "classic"


CHOICES = (AUTO, *Protocol)


def suited(broker: Mapping[str, str] | None, session_s: float) -> Protocol:
    """Return the protocol by which a dead member's partitions are given away soonest.

    Args:
        broker: settings of a node of the cluster; None if they may not be read.
        session_s: silence, in seconds, after which the classic protocol gives a member up.
    """
    told = broker or {}
    protocols = told.get("group.coordinator.rebalance.protocols", Protocol.CLASSIC).split(",")
    session_ms = int(told.get("group.consumer.session.timeout.ms", 2**31))
    if Protocol.CONSUMER not in protocols:
        return Protocol.STATIC
    return Protocol.CONSUMER if session_ms <= session_s * 1000 or Protocol.CLASSIC not in protocols else Protocol.STATIC


def membership_properties(protocol: Protocol, member: str, session_s: float) -> dict[str, str | int]:
    """Return the client properties by which ``member`` takes part in this way."""
    if protocol is Protocol.CONSUMER:
        return {"group.protocol": "consumer"}
    session_ms = round(session_s * 1000)
    return {
        "group.protocol": "classic",
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": session_ms,
        # A member learns of a rebalance by its next heartbeat, and a cooperative one takes two rounds.
        "heartbeat.interval.ms": min(300, session_ms // 3),
        **({"group.instance.id": member} if protocol is Protocol.STATIC else {}),
    }
