"""Ports that are chosen once and kept.

They are taken from below the ranges that Linux (32768 and up) and macOS (49152 and up) hand out to outgoing
connections. A port from those ranges could be taken by any client while the broker is down, even by a client that is
trying to reconnect to it: a TCP connection from a port to itself succeeds.
"""

import random
import socket
import time
from collections.abc import Collection

from driftline.errors import EmbeddedBrokerError

HOST = "127.0.0.1"
FIRST_PORT, LAST_PORT = 20_000, 31_999
_TRIES = 200
_RETRY_S = 0.05


def is_free(port: int) -> bool:
    """Whether a server could listen on ``port`` of the loopback address now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        # As the JVM does: connections of a dead broker that are still timing out are not in the way.
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((HOST, port))
            server.listen(1)
        except (OSError, OverflowError):
            return False
    return True


def still_taken(wanted: Collection[int], patience_s: float) -> list[int]:
    """Return those of ``wanted`` that are not free, waiting up to ``patience_s`` seconds for them to become so."""
    until_s = time.monotonic() + patience_s
    while (taken := [port for port in wanted if not is_free(port)]) and time.monotonic() < until_s:
        time.sleep(_RETRY_S)
    return taken


def choose(taken: Collection[int] = ()) -> int:
    """Return a free port that is not in ``taken``.

    Raises:
        EmbeddedBrokerError: no free port was found.
    """
    chooser = random.SystemRandom()
    for _ in range(_TRIES):
        port = chooser.randint(FIRST_PORT, LAST_PORT)
        if port not in taken and is_free(port):
            return port
    raise EmbeddedBrokerError(f"{_TRIES} ports between {FIRST_PORT} and {LAST_PORT} were tried and none is free.")
