"""Tensors keep every bit on the way through bytes."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from driftline.errors import NotEncodable, Undecodable
from driftline.schemas.model.tensors import decode_fp32, encode_fp32, is_finite, pack_presence, unpack_presence

ODD_BITS = np.array(
    [0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFC12345],
    np.uint32,
)


@settings(max_examples=50, deadline=None)
@given(bits=hnp.arrays(np.uint32, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=8)))
def test_round_trip(bits: npt.NDArray[np.uint32]) -> None:
    """Any bit pattern of any shape comes back, flat and in C order."""
    payload = encode_fp32(bits.view(np.float32))
    assert (payload.dtype, payload.ndim) == (np.dtype(np.uint8), 1)
    assert payload.tobytes() == bits.astype("<u4").tobytes()
    back = decode_fp32(payload.tobytes(), bits.size)
    assert (back.dtype, back.shape) == (np.dtype(np.float32), (bits.size,))
    assert back.tobytes() == bits.tobytes()


def test_contiguous_arrays_are_viewed() -> None:
    """Nothing is copied where memory is on the wire's terms already."""
    array = np.ones((3, 4), np.float32)
    assert np.shares_memory(encode_fp32(array), array)
    message = array.tobytes()
    assert np.shares_memory(decode_fp32(memoryview(message)[4:], 11), np.frombuffer(message, np.uint8))


def test_strides_and_byte_order_never_reach_the_wire() -> None:
    """Transposed, sliced and big-endian arrays have the bytes of their plain copies, odd bits included."""
    plain = np.concatenate([ODD_BITS, ODD_BITS[:3]]).view(np.float32).reshape(3, 4)
    expected = encode_fp32(plain).tobytes()
    assert encode_fp32(np.asfortranarray(plain)).tobytes() == expected
    assert encode_fp32(np.repeat(plain, 2, axis=1)[:, ::2]).tobytes() == expected
    foreign = plain.view(np.uint32).astype(">u4").view(">f4")
    assert encode_fp32(foreign).tobytes() == expected


def test_a_slice_has_its_own_size() -> None:
    """A small view does not drag its whole storage along."""
    assert encode_fp32(np.zeros(1_000_000, np.float32)[10:12]).size == 8


@pytest.mark.parametrize("dtype", ["f8", "f2", "i4", "u1", "?", "c8"])
def test_other_types_are_refused(dtype: str) -> None:
    """The codec is for float32; nothing is converted in silence."""
    with pytest.raises(NotEncodable, match="float32 arrays only"):
        encode_fp32(np.zeros(4, dtype))
    with pytest.raises(NotEncodable, match="list: codec fp32"):
        encode_fp32([1.0])  # type: ignore[arg-type]


def test_decoded_arrays_are_read_only() -> None:
    """A caller that writes takes a copy; the message stays as it is."""
    for payload in (bytes(8), memoryview(bytearray(8)), np.zeros(8, np.uint8)):
        with pytest.raises(ValueError, match="read-only"):
            decode_fp32(payload, 2)[0] = 1.0


@pytest.mark.parametrize(("size", "elements"), [(7, 2), (9, 2), (0, 1), (8, 1), (0, -1), (8, -2), (4, 2**61)])
def test_sizes_must_agree(size: int, elements: int) -> None:
    """A payload of another size is refused, with both sizes."""
    with pytest.raises(Undecodable, match=f"{size} bytes of payload, but {elements} fp32 elements"):
        decode_fp32(bytes(size), elements)


def test_nothing_is_a_tensor_too() -> None:
    """An empty shard piece has no bytes and no elements."""
    assert encode_fp32(np.zeros((0, 4), np.float32)).size == 0
    assert decode_fp32(b"", 0).shape == (0,)


@pytest.mark.parametrize("size", [1, 2, 65_535, 65_536, 65_537, 240 * 1024])
@pytest.mark.parametrize("bad", [0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFFFFFFF])
def test_one_bad_element_is_found(size: int, bad: int) -> None:
    """Wherever it stands, and whichever NaN or infinity it is."""
    for place in {0, size // 2, size - 1}:
        bits = np.full(size, 0x7F7FFFFF, np.uint32)
        assert is_finite(bits.view(np.float32))
        bits[place] = bad
        assert not is_finite(bits.view(np.float32))


def test_finite_arrays() -> None:
    """Largest values, denormals, -0.0 and nothing at all are finite; shape and strides do not matter."""
    finite = np.array([3.4028235e38, -3.4028235e38, 1e-45, -0.0], np.float32)
    assert is_finite(finite)
    assert is_finite(finite.reshape(2, 2).T)
    assert is_finite(np.zeros((0, 4), np.float32))
    assert is_finite(np.array(1.0, np.float32))
    assert not is_finite(np.array(np.nan, np.float32))
    spread = np.full(10, np.nan, np.float32)
    spread[::2] = 0.0
    assert is_finite(spread[::2])
    assert not is_finite(spread[1::2])


@given(flags=st.lists(st.booleans(), max_size=70))
def test_presence(flags: list[bool]) -> None:
    """One bit a flag, least significant first, in as few bytes as hold them."""
    bitmap = pack_presence(flags)
    assert len(bitmap) == math.ceil(len(flags) / 8)
    assert [bool(bitmap[i // 8] >> i % 8 & 1) for i in range(len(flags))] == flags
    back = unpack_presence(bitmap, len(flags))
    assert back == tuple(flags)
    assert all(type(flag) is bool for flag in back)


@pytest.mark.parametrize(("bitmap", "count"), [(b"", 1), (b"\x01", 0), (b"\x01", 9), (b"\x01\x00", 8), (b"", -1)])
def test_presence_of_another_length(bitmap: bytes, count: int) -> None:
    """A bitmap has exactly the bytes that its flags need."""
    with pytest.raises(Undecodable, match=f"bitmap of {len(bitmap)} bytes for {count} segment pieces"):
        unpack_presence(bitmap, count)


def test_presence_with_stray_bits() -> None:
    """Bits that stand for nothing must be zero, so that equal flags have equal bytes."""
    assert unpack_presence(b"\x07", 3) == (True, True, True)
    with pytest.raises(Undecodable, match="bits beyond its 3 segment pieces"):
        unpack_presence(b"\x08", 3)
