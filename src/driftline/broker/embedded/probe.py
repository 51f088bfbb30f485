"""Is the broker ready? Asked in Kafka's own protocol, because a port opens long before metadata is answered."""

import socket
import struct
from dataclasses import dataclass
from typing import BinaryIO

_METADATA, _METADATA_VERSION = 3, 1
_CORRELATION_ID = 7
_MAX_RESPONSE_BYTES = 1 << 20
_CLIENT_ID = b"driftline-probe"


@dataclass(frozen=True, slots=True)
class Metadata:
    """What one node says about its cluster.

    Attributes:
        nodes: ids of the brokers that take part.
        controller_id: the active controller, -1 if there is none.
    """

    nodes: frozenset[int]
    controller_id: int


def ask_metadata(host: str, port: int, timeout_s: float) -> Metadata | None:
    """Send one Metadata request for no topics; None when nobody answers it properly within ``timeout_s``."""
    header = struct.pack(">hhih", _METADATA, _METADATA_VERSION, _CORRELATION_ID, len(_CLIENT_ID)) + _CLIENT_ID
    request = header + struct.pack(">i", 0)
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as answer:
                return _parse(answer)
    except (OSError, struct.error, ValueError):
        return None


def _parse(answer: BinaryIO) -> Metadata:
    size, correlation_id, brokers = struct.unpack(">iii", answer.read(12))
    if correlation_id != _CORRELATION_ID or not 0 < size <= _MAX_RESPONSE_BYTES:
        raise ValueError("not an answer to our Metadata request")
    nodes = set()
    for _ in range(brokers):
        node_id, _host = struct.unpack(">i", answer.read(4)), _string(answer)
        _port, _rack = answer.read(4), _string(answer)
        nodes.add(int(node_id[0]))
    (controller_id,) = struct.unpack(">i", answer.read(4))
    return Metadata(frozenset(nodes), controller_id)


def _string(answer: BinaryIO) -> bytes:
    (length,) = struct.unpack(">h", answer.read(2))
    return answer.read(length) if length > 0 else b""
