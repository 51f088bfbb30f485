"""Digests cover every byte that matters, in the order that the design fixes, and compare by bits."""

import dataclasses
import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftline.schemas import digests
from driftline.schemas.codec import decode, encode
from driftline.schemas.records import NO_HASH, PayloadRecord
from tests.support.strategies import HASH_A, HASH_B, PAYLOAD_TYPES, SAMPLES, UUID_A, UUID_B, records_of

PAYLOAD_SAMPLES: list[PayloadRecord] = [sample for sample in SAMPLES if isinstance(sample, PAYLOAD_TYPES)]
by_sample = pytest.mark.parametrize("sample", PAYLOAD_SAMPLES, ids=lambda sample: type(sample).__name__)


def sha(*parts: bytes) -> bytes:
    """SHA-256 over parts, put together."""
    return hashlib.sha256(b"".join(parts)).digest()


@settings(max_examples=60, deadline=None)
@given(data=st.data(), record_type=st.sampled_from(PAYLOAD_TYPES))
def test_seal(data: st.DataObject, record_type: type[PayloadRecord]) -> None:
    """A sealed record is the record with its right digest in place, whatever digest it came with."""
    record = data.draw(records_of(record_type))
    assert isinstance(record, PAYLOAD_TYPES)
    buffer, digest = digests.seal(UUID_A, record)
    value = bytes(buffer)
    assert value == bytes(encode(dataclasses.replace(record, digest=digest)))
    assert digest == sha(UUID_A, value[2:10], value[42:])
    sealed = decode(value)
    assert isinstance(sealed, PAYLOAD_TYPES)
    assert digests.verify_digest(UUID_A, value, sealed)


@by_sample
def test_every_byte_counts(sample: PayloadRecord) -> None:
    """One changed bit anywhere, or another run, and the digest is wrong."""
    value = bytes(digests.seal(UUID_A, sample)[0])
    for place in range(2, len(value)):
        changed = bytearray(value)
        changed[place] ^= 0x04
        claimed = dataclasses.replace(sample, digest=bytes(changed[10:42]))
        assert not digests.verify_digest(UUID_A, bytes(changed), claimed)
    claimed = dataclasses.replace(sample, digest=value[10:42])
    assert digests.verify_digest(UUID_A, value, claimed)
    assert not digests.verify_digest(UUID_B, value, claimed)


@by_sample
def test_a_missing_digest_is_refused(sample: PayloadRecord) -> None:
    """All zeros are no digest."""
    missing = dataclasses.replace(sample, digest=NO_HASH)
    assert not digests.verify_digest(UUID_A, bytes(encode(missing)), missing)


def test_digests_need_a_uuid_and_a_record() -> None:
    """A UUID of another length would shift the bytes behind it."""
    value = encode(PAYLOAD_SAMPLES[0])
    with pytest.raises(ValueError, match="16 bytes, not 15"):
        digests.record_digest(UUID_A[1:], value)
    with pytest.raises(ValueError, match="41 bytes are no payload record"):
        digests.record_digest(UUID_A, value[:41])


def test_contribution_root() -> None:
    """The root is over the digests in shard order."""
    assert digests.contribution_root([HASH_A, HASH_B]) == sha(HASH_A, HASH_B)
    assert digests.contribution_root([HASH_B, HASH_A]) != sha(HASH_A, HASH_B)
    with pytest.raises(ValueError, match="32 bytes, not 31"):
        digests.contribution_root([HASH_A[1:]])


def test_next_head() -> None:
    """The head is a running hash from 32 zero bytes."""
    assert digests.next_head(NO_HASH, b"record") == sha(bytes(32), b"record")


def test_shard_digest() -> None:
    """Masters, then moments by name, as little-endian bytes; the masters have a digest of their own."""
    master, first, second = (np.arange(start, start + 5, dtype=np.float32) for start in (0, 5, 10))
    state, masters = digests.shard_digest(master, {"exp_avg_sq": second, "exp_avg": first})
    assert masters == sha(master.astype("<f4").tobytes())
    assert state == sha(*(array.astype("<f4").tobytes() for array in (master, first, second)))
    assert digests.shard_digest(master, {}) == (masters, masters)


def test_shard_digest_takes_any_view() -> None:
    """Strides and byte order of the memory do not show."""
    master = np.arange(10, dtype=np.float32)
    expected = digests.shard_digest(master, {"m": master})
    spread = np.zeros(20, np.float32)
    spread[::2] = master
    assert digests.shard_digest(spread[::2], {"m": master.astype(">f4")}) == expected
    empty = np.zeros(0, np.float32)
    assert digests.shard_digest(empty, {}) == (sha(), sha())


def test_shard_digest_by_bits() -> None:
    """-0.0 is not 0.0, and one NaN is not another."""
    patterns = np.array([0x00000000, 0x80000000, 0x7FC00000, 0x7FC00001, 0x7F800001], np.uint32).view(np.float32)
    assert len({digests.shard_digest(patterns[i : i + 1], {}) for i in range(5)}) == 5
    assert digests.shard_digest(patterns, {})[1] == sha(patterns.tobytes())


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32])
def test_shard_digest_of_another_type(dtype: type[np.generic]) -> None:
    """Other types are refused, not converted in silence."""
    with pytest.raises(TypeError, match=r"exp_avg: .*, not float32"):
        digests.shard_digest(np.zeros(3, np.float32), {"exp_avg": np.zeros(3, dtype)})


def test_model_digest() -> None:
    """Shard digests in shard order; buffers are part of the shards."""
    assert digests.model_digest([HASH_A, HASH_B]) == sha(HASH_A, HASH_B)
    assert digests.model_digest([HASH_B, HASH_A]) == sha(HASH_B, HASH_A)
