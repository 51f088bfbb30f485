"""Keeping a node's address, or giving it up when nobody can be waiting there."""

from collections.abc import Callable, Collection

from driftline.broker.embedded import ports
from driftline.broker.embedded.report import Report, quiet
from driftline.broker.embedded.state import NodeAddress, choose_ports
from driftline.errors import EmbeddedBrokerError


def settle(
    kept: NodeAddress,
    wanted: int | None,
    patience_s: float,
    *,
    may_move: Callable[[], bool],
    report: Report = quiet,
    others: Collection[int] = (),
    peers_run: bool = False,
) -> NodeAddress:
    """Return the address at which a node that is not running can be started now.

    Args:
        kept: where it was, or is to be, by what was chosen before.
        wanted: the clients' port that was asked for, if any.
        patience_s: how long to wait for ports in use; a process that just died may still be letting go of them.
        may_move: asked when it matters: whether another port may be chosen for clients.
        report: told of a move.
        others: ports of the broker's other nodes, which must not be chosen.
        peers_run: other nodes run, and look for this one where it was. Otherwise the controller's port may always
            change: all nodes are told of it when they start.

    Raises:
        EmbeddedBrokerError: a port is taken that must not change.
    """
    port = kept.broker_port if wanted is None else wanted
    if port in others:
        raise EmbeddedBrokerError(
            f"port {port} is that of another node of this broker; choose another one with --port."
        )
    taken = ports.still_taken((port, kept.controller_port), patience_s)
    if taken and peers_run:
        raise EmbeddedBrokerError(
            f"port {taken[0]} of node {kept.node_id} is in use by another process, and the nodes that run look for it "
            "there. End that process, or stop the whole broker (driftline broker stop) and start it again."
        )
    if port in taken:
        if not may_move():
            raise EmbeddedBrokerError(
                f"port {port} of this broker is in use by another process, and clients may be waiting for the broker "
                "there. End that process, or choose another port (driftline broker start --port PORT) and give clients "
                "the new address."
            )
        moved = choose_ports(kept.node_id, {port, *others})
        report(f"port {port} is in use by another process; the broker moves to port {moved.broker_port}")
        return moved
    if kept.controller_port in taken or port == kept.controller_port:
        return choose_ports(kept.node_id, {port, *others}, broker_port=port)
    return NodeAddress(kept.node_id, port, kept.controller_port)
