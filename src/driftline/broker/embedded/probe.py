"""Two questions to one node in Kafka's own protocol: is it ready, and which node is the active controller?

A port opens long before Kafka answers metadata requests, and this package must not import a Kafka client.
"""

import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

_METADATA, _METADATA_VERSION, _METADATA_ID = 3, 1, 7
_QUORUM, _QUORUM_VERSION, _QUORUM_ID = 55, 0, 9
_MAX_RESPONSE_BYTES = 1 << 20
_CLIENT_ID = b"driftline-probe"
_TOPIC = b"__cluster_metadata"
_ONE = 2
"""Length of a compact array with one element; a compact string of n bytes has length n + 1."""
_NO_TAGS = b"\0"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Metadata:
    """What one node knows of its cluster.

    Attributes:
        nodes: ids of the brokers that take part.
        controller_id: the active controller, -1 if there is none.
    """

    nodes: frozenset[int]
    controller_id: int


def ask_metadata(host: str, port: int, timeout_s: float) -> Metadata | None:
    """Send one Metadata request for no topics; None without a valid answer within ``timeout_s``."""
    request = _header(_METADATA, _METADATA_VERSION, _METADATA_ID) + struct.pack(">i", 0)
    return _ask(host, port, timeout_s, request, _parse_metadata)


def ask_leader(host: str, port: int, timeout_s: float) -> int | None:
    """Ask a node for the id of the active controller; None if there is none, or without a valid answer in time.

    A Metadata response names any node in its place, so this asks for the quorum's leader.
    """
    partition = struct.pack(">Bi", _ONE, 0) + _NO_TAGS
    topic = struct.pack(">BB", _ONE, len(_TOPIC) + 1) + _TOPIC + partition + _NO_TAGS
    request = _header(_QUORUM, _QUORUM_VERSION, _QUORUM_ID) + _NO_TAGS + topic + _NO_TAGS
    return _ask(host, port, timeout_s, request, _parse_leader)


def _header(api: int, version: int, correlation_id: int) -> bytes:
    return struct.pack(">hhih", api, version, correlation_id, len(_CLIENT_ID)) + _CLIENT_ID


def _ask(host: str, port: int, timeout_s: float, request: bytes, parse: Callable[[BinaryIO], T]) -> T | None:
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as answer:
                return parse(answer)
    except (OSError, struct.error, ValueError):
        return None


def _parse_metadata(answer: BinaryIO) -> Metadata:
    size, correlation_id, brokers = struct.unpack(">iii", answer.read(12))
    if correlation_id != _METADATA_ID or not 0 < size <= _MAX_RESPONSE_BYTES:
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


def _parse_leader(answer: BinaryIO) -> int | None:
    """Return the leader of the only partition."""
    head, partition = struct.Struct(">iiBhBB"), struct.Struct(">Bihi")
    _size, correlation_id, _tags, failed, topics, name_bytes = head.unpack(answer.read(head.size))
    if correlation_id != _QUORUM_ID or failed or topics != _ONE:
        raise ValueError("not an answer to our DescribeQuorum request")
    answer.read(name_bytes - 1)
    _partitions, _index, failed, leader = partition.unpack(answer.read(partition.size))
    return None if failed or leader < 0 else int(leader)
