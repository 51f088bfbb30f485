"""The readiness probe accepts only a complete and valid answer."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from driftline.broker.embedded.probe import Metadata, ask_metadata


def answer(nodes: tuple[int, ...], controller: int, correlation: int = 7) -> bytes:
    """Build a Metadata response, version 1."""
    brokers = b"".join(struct.pack(">ih9sih", node, 9, b"127.0.0.1", 9092, -1) for node in nodes)
    body = struct.pack(">ii", correlation, len(nodes)) + brokers + struct.pack(">ii", controller, 0)
    return struct.pack(">i", len(body)) + body


@contextmanager
def replying(reply: bytes) -> Iterator[int]:
    """Listen, and send ``reply`` to the first client."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join(timeout=5)


@pytest.mark.parametrize("nodes", [(1,), (1, 2, 3), ()])
def test_nodes_and_controller_are_read(nodes: tuple[int, ...]) -> None:
    """A node that is up but not in its own list is not ready, so the list matters."""
    with replying(answer(nodes, 1)) as port:
        assert ask_metadata("127.0.0.1", port, 2.0) == Metadata(frozenset(nodes), 1)


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        answer((1,), 1)[:20],
        answer((1,), 1)[:-9],
        answer((1,), 1, correlation=8),
    ],
)
def test_an_invalid_or_cut_answer_is_none(reply: bytes) -> None:
    """Another server on the port, or a connection that breaks off."""
    with replying(reply) as port:
        assert ask_metadata("127.0.0.1", port, 2.0) is None


def test_silence_has_a_deadline() -> None:
    """A port that is open without an answer is not ready."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert ask_metadata("127.0.0.1", server.getsockname()[1], 0.1) is None
