"""Records become bytes and come back the same; the bytes are plain Avro and never change by accident."""

import dataclasses
import os
import struct
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from textwrap import wrap
from typing import Any

import fastavro
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftline.schemas import codec
from driftline.schemas.codec import decode, encode, peek_type, schema_fingerprint
from driftline.schemas.codec.fingerprint import canonical_form
from driftline.schemas.records import AnyRecord, Delta, Evaluation, PayloadRecord
from tests.simulation.world.reading_once import reading_once
from tests.support.strategies import (
    HASH_A,
    PAYLOAD_TYPES,
    RECORD_TYPES,
    SAMPLES,
    any_record,
    avsc,
    records_of,
    snake_case,
)

GOLDEN = Path(__file__).parent / "golden"
REWRITE = "DRIFTLINE_REWRITE_GOLDEN"
"""Set it to 1 to write the golden files, after a schema changed on purpose; then look at the difference."""

by_type = pytest.mark.parametrize("record_type", RECORD_TYPES, ids=lambda record_type: record_type.__name__)
by_sample = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)


def bits(value: Any) -> Any:
    """Plain values that are equal exactly when all bits are: NaN equals itself, -0.0 is not 0.0."""
    if dataclasses.is_dataclass(value):
        return {field.name: bits(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: bits(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [bits(inner) for inner in value]
    if isinstance(value, float):
        return struct.pack("<d", value)
    return bytes(value) if isinstance(value, memoryview) else value


def types(value: Any) -> Any:
    """Return the Python types all the way down; a payload's view counts as its bytes."""
    if dataclasses.is_dataclass(value):
        return type(value), [types(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, Mapping):
        return type(value), {key: types(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return tuple, [types(inner) for inner in value]
    return bytes if isinstance(value, memoryview) else type(value)


def test_samples_and_schema_files() -> None:
    """Every record has one schema file and one sample, and there are no others."""
    folder = Path(codec.__file__).parent.parent / "avsc"
    names = sorted(snake_case(record_type.__name__) for record_type in RECORD_TYPES)
    assert sorted(path.stem for path in folder.glob("*.avsc")) == names
    assert sorted(snake_case(type(sample).__name__) for sample in SAMPLES) == names


@by_type
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_round_trip(record_type: type[AnyRecord], data: st.DataObject) -> None:
    """What is decoded has the bits and the exact types of what was encoded, and encodes to the same bytes."""
    record = data.draw(records_of(record_type))
    encoded = bytes(encode(record))
    back = decode(encoded)
    assert bits(back) == bits(record)
    assert types(back) == types(record)
    assert bytes(encode(back)) == encoded


@settings(max_examples=200, deadline=None)
@given(record=any_record())
def test_another_reader(record: AnyRecord) -> None:
    """Any Avro reader that has the schema file reads the same values."""
    body = BytesIO(bytes(encode(record))[10:])
    assert bits(fastavro.schemaless_reader(body, avsc(type(record)), None)) == bits(record)
    assert body.read() == b""


@settings(max_examples=100, deadline=None)
@given(record=any_record())
def test_another_writer(record: AnyRecord) -> None:
    """Any Avro writer that has the schema file writes the same bytes, if it sorts its maps."""
    body = BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(avsc(type(record))), _sorted(dataclasses.asdict(record)))
    assert bytes(encode(record))[10:] == body.getvalue()


def _sorted(plain: object) -> object:
    """Sort maps; the fields of records are found by their names."""
    if isinstance(plain, dict):
        return {key: _sorted(plain[key]) for key in sorted(plain)}
    return tuple(_sorted(one) for one in plain) if isinstance(plain, tuple) else plain


@by_sample
def test_golden_bytes(sample: AnyRecord) -> None:
    """Bytes never change by accident: the logs of earlier runs stay readable."""
    path = GOLDEN / f"{snake_case(type(sample).__name__)}.hex"
    encoded = bytes(encode(sample))
    if os.environ.get(REWRITE) == "1":
        path.write_text("\n".join(wrap(encoded.hex(), 64)) + "\n", encoding="ascii")
    golden = bytes.fromhex(path.read_text(encoding="ascii"))
    assert encoded == golden, f"the log of every run so far would be unreadable; if meant, set {REWRITE}=1"
    assert bits(decode(golden)) == bits(sample)


@by_sample
def test_prefix(sample: AnyRecord) -> None:
    """Marker and CRC-64-AVRO fingerprint are in front, and are enough to tell the record type."""
    encoded = bytes(encode(sample))
    assert encoded[:2] == b"\xc3\x01"
    assert encoded[2:10] == schema_fingerprint(type(sample)) == _crc_64_avro(type(sample))
    assert peek_type(encoded) is type(sample)
    assert peek_type(encoded[:10]) is type(sample)
    assert peek_type(encoded[:9]) is None


def _crc_64_avro(record_type: type[AnyRecord]) -> bytes:
    """Compute the fingerprint as the Avro specification writes it down."""
    empty = 0xC15D213AA4D7A795
    fingerprint = empty
    for byte in fastavro.schema.to_parsing_canonical_form(avsc(record_type)).encode():
        fingerprint ^= byte
        for _ in range(8):
            fingerprint = (fingerprint >> 1) ^ (empty & -(fingerprint & 1))
    return fingerprint.to_bytes(8, "little")


@by_type
def test_canonical_form(record_type: type[AnyRecord]) -> None:
    """The canonical form of a schema, of which fingerprints are taken, is the one that fastavro computes."""
    assert canonical_form(avsc(record_type)) == fastavro.schema.to_parsing_canonical_form(avsc(record_type))


def test_fingerprints_differ() -> None:
    """No two records can be taken for each other."""
    assert len({schema_fingerprint(record_type) for record_type in RECORD_TYPES}) == len(RECORD_TYPES)


@pytest.mark.parametrize("value", [None, b"", b"hello, this is text", bytes(200)])
def test_peek_at_something_else(value: bytes | None) -> None:
    """Peeking at bytes that are no record gives None and raises nothing."""
    assert peek_type(value) is None


def test_map_order() -> None:
    """Equal maps have equal bytes, in whatever order they were filled."""
    one = Evaluation(term=1, parent=HASH_A, version=1, evaluator="e", metrics={"loss": 1.0, "accuracy": 0.5})
    other = dataclasses.replace(one, metrics={"accuracy": 0.5, "loss": 1.0})
    assert encode(one) == encode(other)


def _payload_record(record_type: type[PayloadRecord], payload: Any) -> PayloadRecord:
    sample = next(sample for sample in SAMPLES if type(sample) is record_type)
    return dataclasses.replace(sample, payload=payload)


by_payload_type = pytest.mark.parametrize("record_type", PAYLOAD_TYPES, ids=lambda record_type: record_type.__name__)


@by_payload_type
def test_payload_in_place(record_type: type[PayloadRecord]) -> None:
    """A payload is the message's own memory, to its last byte, and cannot be written."""
    sent = np.arange(2**20, dtype=np.uint8)
    message = bytes(encode(_payload_record(record_type, sent)))
    payload = decode(message).payload  # type: ignore[union-attr]
    assert isinstance(payload, memoryview)
    assert payload.readonly
    assert payload == sent.data
    seen, whole = np.frombuffer(payload, np.uint8), np.frombuffer(message, np.uint8)
    assert np.shares_memory(seen, whole)
    assert seen.ctypes.data + seen.size == whole.ctypes.data + whole.size
    with pytest.raises(TypeError):
        payload[0] = 1


@by_payload_type
def test_payload_record_is_one_array(record_type: type[PayloadRecord]) -> None:
    """A payload record is one new array that the broker client takes, and leaves the payload free for reuse."""
    sent = np.zeros(100, np.uint8)
    encoded = encode(_payload_record(record_type, sent))
    assert isinstance(encoded, np.ndarray)
    assert encoded.dtype == np.uint8
    assert encoded.ndim == 1
    assert encoded.flags.c_contiguous
    assert not np.shares_memory(encoded, sent)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 8_191, 8_192, 960 * 1024])
def test_payload_sizes(size: int) -> None:
    """Payloads of every size come back, whatever holds them; the length takes one to three bytes."""
    sent = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    for payload in (sent, sent.data, sent.tobytes()):
        message = bytes(encode(_payload_record(Delta, payload)))
        assert decode(message).payload == sent.data  # type: ignore[union-attr]


def test_payload_bits() -> None:
    """NaNs with their payloads, -0.0 and denormals stay as they are."""
    patterns = np.array([0x7FC00000, 0x7F800001, 0xFFC12345, 0x80000000, 0x00000001, 0x807FFFFF, 0x7F800000], np.uint32)
    message = bytes(encode(_payload_record(Delta, patterns.view(np.uint8))))
    assert bytes(decode(message).payload) == patterns.tobytes()  # type: ignore[union-attr]


def test_decode_of_an_array() -> None:
    """A record decoded from an array does not change with the array."""
    buffer = encode(_payload_record(Delta, bytes(8)))
    record = decode(buffer)
    buffer[-8:] = 255
    assert record.payload == bytes(8)  # type: ignore[union-attr]


def test_full_shard() -> None:
    """The longest payload fits the default message size of Kafka and librdkafka."""
    longest = _payload_record(Delta, np.zeros(960 * 1024, np.uint8))
    assert encode(longest).size < 1_000_000


@by_sample
def test_read_once(sample: AnyRecord) -> None:
    """Equal bytes are one record while they are read once, unless it holds a map, which a reader could change."""
    value, holds_map = bytes(encode(sample)), "'type': 'map'" in str(avsc(type(sample)))
    with reading_once():
        first, second = decode(value), decode(bytes(bytearray(value)))
        assert (first is second) is not holds_map
        assert bits(first) == bits(second) == bits(decode(value))
    assert decode(value) is not decode(value)
