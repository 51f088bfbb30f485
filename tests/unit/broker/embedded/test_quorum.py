"""The controller probe sends Kafka's request and accepts only a complete and valid answer."""

import struct

import pytest

from driftline.broker.embedded.probe import ask_leader
from tests.unit.broker.embedded.test_probe import replying

TOPIC = b"__cluster_metadata"


def answer(leader: int, *, error: int = 0, partition_error: int = 0, correlation: int = 9) -> bytes:
    """Build the beginning of a DescribeQuorum response, version 0."""
    head = struct.pack(">iBhB", correlation, 0, error, 2) + bytes([len(TOPIC) + 1]) + TOPIC
    body = head + struct.pack(">Bihiiq", 2, 0, partition_error, leader, 5, 100)
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize("leader", [1, 3])
def test_the_id_of_the_leader_is_read(leader: int) -> None:
    """From the only partition of the metadata topic."""
    with replying(answer(leader)) as port:
        assert ask_leader("127.0.0.1", port, 2.0) == leader


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        answer(1)[:20],
        answer(1, error=41),
        answer(1, partition_error=6),
        answer(1, correlation=8),
        answer(-1),
    ],
    ids=["nothing", "another server", "cut", "refused", "partition refused", "another answer", "no leader"],
)
def test_an_invalid_answer_or_no_leader_is_none(reply: bytes) -> None:
    """Also while an election goes on."""
    with replying(reply) as port:
        assert ask_leader("127.0.0.1", port, 2.0) is None
