"""Who decides? The active controller, asked for in Kafka's own protocol: metadata names any node in its place."""

import socket
import struct

_DESCRIBE_QUORUM, _VERSION = 55, 0
_CORRELATION_ID = 9
_CLIENT_ID = b"driftline-probe"
_TOPIC = b"__cluster_metadata"
_MAX_RESPONSE_BYTES = 1 << 16
_ONE = 2
"""Length of an array of one element, as compact arrays say it; of a compact string it is that of the text and one."""
_NO_TAGS = b"\0"


def ask_leader(host: str, port: int, timeout_s: float) -> int | None:
    """Ask a node for the number of the active controller; None if there is none, or no proper answer in time."""
    header = struct.pack(">hhih", _DESCRIBE_QUORUM, _VERSION, _CORRELATION_ID, len(_CLIENT_ID)) + _CLIENT_ID + _NO_TAGS
    partition = struct.pack(">Bi", _ONE, 0) + _NO_TAGS
    topic = struct.pack(">BB", _ONE, len(_TOPIC) + 1) + _TOPIC + partition + _NO_TAGS
    request = header + topic + _NO_TAGS
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as answer:
                (size,) = struct.unpack(">i", answer.read(4))
                return _parse(answer.read(min(size, _MAX_RESPONSE_BYTES)))
    except (OSError, struct.error, ValueError):
        return None


def _parse(answer: bytes) -> int | None:
    """Read the number of the leader of the only partition."""
    head = struct.Struct(">iBhBB")
    correlation_id, _tags, failed, topics, name_bytes = head.unpack_from(answer)
    if correlation_id != _CORRELATION_ID or failed or topics != _ONE:
        raise ValueError("not an answer to our DescribeQuorum request")
    _partitions, _index, failed, leader = struct.unpack_from(">Bihi", answer, head.size + name_bytes - 1)
    return None if failed or leader < 0 else leader
