"""Bytes that are no record are refused with a reason, and cost neither memory nor any other exception."""

import dataclasses
import struct
import tracemalloc
from collections.abc import Iterator
from io import BytesIO

import fastavro
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from driftline.errors import Undecodable
from driftline.schemas.codec import decode, encode, schema_fingerprint
from driftline.schemas.records import (
    AnyRecord,
    Delta,
    Evaluation,
    Heartbeat,
    Leave,
    Membership,
    Proposal,
    Publish,
    Tick,
    Version,
)
from tests.support.strategies import GROUP, HASH_A, SAMPLES, UUID_A

SAMPLE_BYTES = [bytes(encode(sample)) for sample in SAMPLES]
by_sample = pytest.mark.parametrize("message", SAMPLE_BYTES, ids=[type(sample).__name__ for sample in SAMPLES])


def long(value: int) -> bytes:
    """Avro's zig-zag varint."""
    rest = (value << 1) ^ (value >> 63)
    out = b""
    while rest > 0x7F:
        out += bytes([rest & 0x7F | 0x80])
        rest >>= 7
    return out + bytes([rest])


def message(record_type: type[AnyRecord], *parts: bytes) -> bytes:
    """Return parts behind the prefix of a record type."""
    return b"\xc3\x01" + schema_fingerprint(record_type) + b"".join(parts)


def ledger(record_type: type[AnyRecord], *parts: bytes) -> bytes:
    """Return parts behind term 1 and a parent."""
    return message(record_type, long(1), HASH_A, *parts)


HUGE, LOWEST = 2**62, -(2**63)
JOIN = long(1) + b"w" + UUID_A
EVALUATION = long(7) + long(1) + b"e"
DELTA = HASH_A + long(1) + long(0) + long(7) + long(0) + long(6)
USE = long(1) + long(0) + long(7)
STATE = long(1) + HASH_A + HASH_A

BAD: list[tuple[bytes | None, str]] = [
    (None, "a null value"),
    (b"", "an empty value"),
    (b"hello", r"no Avro single-object marker \(c3 01\) in front: 68 65 6c 6c 6f"),
    (bytes(4), r"no Avro single-object marker \(c3 01\) in front: 00 00 00 00"),
    (b'{"term": 1}', r"no Avro single-object marker \(c3 01\)"),
    (b"\xc3", r"no Avro single-object marker"),
    (b"\xc3\x01", r"2 bytes, fewer than the 10 of marker and schema fingerprint"),
    (b"\xc3\x01abcdefg", r"9 bytes, fewer than the 10"),
    (b"\xc3\x01\x00\x01\x02\x03\x04\x05\x06\x07rest", r"unknown schema fingerprint 0001020304050607"),
    (message(Tick), r"Tick\.run: the bytes end in the middle of it"),
    (message(Tick, UUID_A, long(1), b"\x80"), r"Tick\.sequence: the bytes end in the middle of it"),
    (message(Tick, UUID_A, long(1), long(2), b"\x00"), r"Tick: 1 bytes too many after the record"),
    (message(Tick, UUID_A, long(1), b"\xff" * 10 + b"\x01"), r"Tick\.sequence: an integer of more than ten bytes"),
    (message(Tick, UUID_A, long(1), b"\xff" * 9 + b"\x02"), r"Tick\.sequence: an integer of more than 64 bits"),
    (message(Leave, UUID_A, long(-1), b"w0"), r"Leave\.worker: declares a negative size of -1 bytes"),
    (message(Leave, UUID_A, long(LOWEST), b"w0"), r"Leave\.worker: declares a negative size"),
    (message(Leave, UUID_A, long(HUGE), b"w0"), r"Leave\.worker: declares 4611686018427387904 bytes, but only 2"),
    (message(Leave, UUID_A, long(2), b"\xed\xa0"), r"Leave\.worker: a string that is no UTF-8"),
    (message(Leave, UUID_A, long(3), b"\xed\xa0\xbd"), r"Leave\.worker: a string that is no UTF-8"),
    (message(Heartbeat, UUID_A, long(1), b"m", UUID_A, long(-1)), r"Heartbeat\.role: symbol -1 of an enum with 3"),
    (message(Heartbeat, UUID_A, long(1), b"m", UUID_A, long(3)), r"Heartbeat\.role: symbol 3 of an enum with 3"),
    (message(Delta, DELTA, long(1)), r"Delta\.codec: symbol 1 of an enum with 1"),
    (message(Delta, DELTA, long(0), long(0), long(0), long(-2), b"ab"), r"Delta\.payload: declares a negative size"),
    (message(Delta, DELTA, long(0), long(0), long(0), long(HUGE), b"ab"), r"Delta\.payload: declares 46.* only 2 are"),
    (message(Delta, DELTA, long(0), long(0), long(0), long(1), b"ab"), r"Delta: 1 bytes too many"),
    (message(Delta, DELTA, long(0), long(0), long(HUGE), b"ab"), r"Delta\.presence: declares 46.* bytes, but only 2"),
    (ledger(Membership, long(HUGE), JOIN), r"Membership\.joins: declares 4611686018427387904 items, but only 18 bytes"),
    (ledger(Membership, long(2), JOIN), r"Membership\.joins: declares 2 items, but only 18 bytes are left"),
    (ledger(Membership, long(LOWEST), long(18), JOIN), r"Membership\.joins: declares 9223372036854775808 items"),
    (ledger(Membership, long(-1), long(-18), JOIN), r"Membership\.joins: declares a negative size of -18 bytes"),
    (ledger(Membership, long(-1), long(HUGE), JOIN), r"Membership\.joins: declares 4611686018427387904 bytes"),
    (ledger(Membership, long(-1), long(17), JOIN, bytes(9)), r"joins: a block of items has another size than it"),
    (ledger(Evaluation, EVALUATION, long(HUGE), b"abc"), r"Evaluation\.metrics: declares 4611686018427387904 items"),
    (
        ledger(Evaluation, EVALUATION, long(2), (long(1) + b"a" + bytes(8)) * 2, long(0)),
        r"Evaluation\.metrics: the key 'a' comes twice",
    ),
    (
        ledger(Version, long(1), long(1), USE, long(5), bytes(70)),
        r"Version\.uses\[0\]\.kind: symbol 5 of an enum with 2",
    ),
    (ledger(Version, long(1), long(0), long(0), bytes(8), long(0), b"\x02"), r"Version\.publish: a boolean of 2"),
    (
        ledger(
            Version,
            long(1),
            long(1),
            *(USE, long(0), long(6), long(0), bytes(16), long(9), struct.pack("<f", float("nan")), HASH_A, bytes(20)),
        ),
        r"Version\.uses\[0\]\.coefficient: nan is no finite float32",
    ),
]


@pytest.mark.parametrize(("value", "reason"), BAD, ids=[reason for _, reason in BAD])
def test_refused(value: bytes | None, reason: str) -> None:
    """The reason names the field and what is wrong with it."""
    with pytest.raises(Undecodable, match=reason):
        decode(value)


def test_the_reason_stays_short() -> None:
    """A key of a megabyte is not repeated in the message."""
    key = b"k" * 2**20
    entry = long(len(key)) + key + bytes(8)
    with pytest.raises(Undecodable) as refused:
        decode(ledger(Evaluation, EVALUATION, long(2), entry, entry, long(0)))
    assert len(str(refused.value)) < 200


def test_declared_sizes_take_no_memory() -> None:
    """Memory follows the bytes that are there, whatever they declare."""
    tracemalloc.start()
    try:
        for value, _ in BAD:
            with pytest.raises(Undecodable):
                decode(value)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def decodes(value: bytes) -> bool:
    """Decode; if it is a record, it must be one that can be written and read again with the same bytes."""
    try:
        record = decode(value)
    except Undecodable:
        return False
    again = bytes(encode(record))
    assert bytes(encode(decode(again))) == again
    return True


@by_sample
def test_every_truncation_is_refused(message: bytes) -> None:
    """No proper prefix of a record is a record."""
    assert not any(decodes(message[:size]) for size in range(len(message)))


@by_sample
def test_trailing_bytes_are_refused(message: bytes) -> None:
    """Nothing may follow a record."""
    assert not decodes(message + b"\x00")
    assert not decodes(message + message)


@by_sample
def test_every_flipped_byte_is_refused_or_another_record(message: bytes) -> None:
    """Whatever damage makes of a record, it is Undecodable or a whole, valid record; nothing else is raised."""
    for place in range(len(message)):
        for mask in (0x01, 0x80, 0xFF):
            flipped = bytearray(message)
            flipped[place] ^= mask
            decodes(bytes(flipped))


def tampered() -> st.SearchStrategy[bytes]:
    """Return the right prefix of a record with anything behind it, or a record with a slice replaced."""
    prefixed = st.builds(lambda message, body: message[:10] + body, st.sampled_from(SAMPLE_BYTES), st.binary())
    spliced = st.builds(
        lambda message, at, size, body: message[:at] + body + message[at + size :],
        *(st.sampled_from(SAMPLE_BYTES), st.integers(10, 300), st.integers(0, 20), st.binary(max_size=20)),
    )
    return prefixed | spliced | st.binary()


@settings(max_examples=500, deadline=None)
@given(value=tampered())
@example(value=b"\xc3\x01" * 5)
def test_anything_else_is_refused_or_a_record(value: bytes) -> None:
    """Random bytes raise Undecodable and nothing else."""
    decodes(value)


def blocks(items: list[bytes]) -> Iterator[bytes]:
    """Return every way that Avro allows to write an array of items: in one block, in several, with sizes or not."""
    yield long(len(items)) + b"".join(items) + long(0)
    yield b"".join(long(1) + item for item in items) + long(0)
    yield b"".join(long(-1) + long(len(item)) + item for item in items) + long(0)
    yield long(-len(items)) + long(len(b"".join(items))) + b"".join(items) + long(0)


@pytest.mark.parametrize("way", range(4))
def test_every_legal_way_to_write_blocks_is_read(way: int) -> None:
    """Other Avro writers cut arrays and maps into blocks as they like."""
    states = list(blocks([STATE, STATE]))[way]
    publish = decode(ledger(Publish, long(701), states))
    assert isinstance(publish, Publish)
    assert [state.state for state in publish.states] == [HASH_A, HASH_A]
    metrics = list(blocks([long(1) + b"a" + bytes(8), long(1) + b"b" + bytes(8)]))[way]
    evaluation = decode(ledger(Evaluation, EVALUATION, metrics))
    assert isinstance(evaluation, Evaluation)
    assert evaluation.metrics == {"a": 0.0, "b": 0.0}


def test_a_lenient_reader_would_take_what_is_refused_here() -> None:
    """Why records are not read by the Avro library: it reads a negative enum index from the end."""
    heartbeat = next(sample for sample in SAMPLES if isinstance(sample, Heartbeat))
    good = bytes(encode(dataclasses.replace(heartbeat, role="worker")))
    at = good.index(heartbeat.incarnation) + 16
    bad = good[:at] + long(-1) + good[at + 1 :]
    schema = {"type": "enum", "name": "Role", "symbols": ["worker", "server", "evaluator"]}
    assert fastavro.schemaless_reader(BytesIO(bad[at:]), schema, None) == "evaluator"
    with pytest.raises(Undecodable, match="symbol -1"):
        decode(bad)


def test_huge_proposals_are_read() -> None:
    """Sizes are bounded by the bytes, not by a number of our own."""
    proposal = next(sample for sample in SAMPLES if isinstance(sample, Proposal))
    large = dataclasses.replace(proposal, layout="x" * 500_000, shards=(HASH_A,) * 10_000)
    assert decode(encode(large)) == large


def test_group_ids_are_objects() -> None:
    """Nested records are their own classes, with an order."""
    delta = decode(SAMPLE_BYTES[0])
    assert isinstance(delta, Delta)
    assert delta.group == GROUP
    assert str(delta.group) == f"{GROUP.offset}.{GROUP.index}"
