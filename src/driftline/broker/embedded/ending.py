"""Ending nodes: all at once, in time, and at last by force."""

import time
from collections.abc import Sequence

from driftline.broker.embedded.node import Node

_POLL_S = 0.05
_ALONE_S = 2.0


def end(nodes: Sequence[Node], timeout_s: float) -> bool:
    """End the processes of ``nodes``: politely, and after ``timeout_s`` seconds by force; False if none was running.

    The last of several nodes gets less time: it has nobody left to tell, and would try until its own time-outs pass.

    Raises:
        EmbeddedBrokerError: even SIGKILL did not end one.
    """
    ended = [node for node in nodes if node.running()]
    for node in ended:
        node.ask_to_end()
    deadline_s = time.monotonic() + timeout_s
    while (living := [node for node in ended if node.running()]) and time.monotonic() < deadline_s:
        if len(living) == 1 and len(living[0].cluster.nodes) > 1:
            deadline_s = min(deadline_s, time.monotonic() + _ALONE_S)
        time.sleep(_POLL_S)
    for node in nodes:
        node.kill()
        node.forget()
    return bool(ended)
